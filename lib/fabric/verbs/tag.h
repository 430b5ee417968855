// SPDX-License-Identifier: Apache-2.0
// The layout of a work request's wr_id, which its completion returns.
//
//   63            44 43        33  32   31        0
//   [ entry of the  | generation | rq | sequence  ]
//   [   connection  | of entry   |    | in queue  ]
//   `----------- tag -----------'
//
// The sequence, modulo the size of the ring, is the index of the user's cookie in the connection's ring.
#pragma once

#include <cstdint>

namespace wss::fabric::verbs {

constexpr uint32_t kTagGenerationBits = 11;
constexpr uint32_t kTagGenerationMask = (1u << kTagGenerationBits) - 1;
constexpr uint32_t kTagIndexMax = (1u << 20) - 1;

constexpr uint32_t make_tag(uint32_t index, uint32_t generation) {
    return index << kTagGenerationBits | generation;
}
constexpr uint32_t tag_index(uint32_t tag) {
    return tag >> kTagGenerationBits;
}
constexpr uint32_t tag_generation(uint32_t tag) {
    return tag & kTagGenerationMask;
}

constexpr uint64_t kReceiveBit = 1ull << 32;
constexpr uint64_t send_id(uint32_t tag, uint32_t sequence) {
    return uint64_t{tag} << 33 | sequence;
}
constexpr uint64_t receive_id(uint32_t tag, uint32_t sequence) {
    return uint64_t{tag} << 33 | kReceiveBit | sequence;
}
constexpr uint32_t tag_of(uint64_t wr_id) {
    return static_cast<uint32_t>(wr_id >> 33);
}
constexpr uint32_t sequence_of(uint64_t wr_id) {
    return static_cast<uint32_t>(wr_id);
}
constexpr bool is_receive(uint64_t wr_id) {
    return (wr_id & kReceiveBit) != 0;
}

static_assert(tag_of(send_id(make_tag(kTagIndexMax, kTagGenerationMask), UINT32_MAX)) ==
                  make_tag(kTagIndexMax, kTagGenerationMask),
              "index, generation, queue and sequence fill 64 bits");

}  // namespace wss::fabric::verbs
