// SPDX-License-Identifier: Apache-2.0
// KeyedHash: a hash of 64-bit numbers that peers choose, such as fingerprints of keys and timestamps. Without
// the secret, a peer cannot find numbers that collide: the hashes of two numbers are independent and evenly
// distributed, whatever the numbers are. The number is multiplied and added modulo 2^128, and the upper half
// is taken (Dietzfelbinger). The last steps (MurmurHash3's finaliser) also spread regular sequences.
//
// Thread-safety: values.
#pragma once

#include <cstdint>

#include "lib/base/clock.h"

namespace wss::kv::store {

class KeyedHash {
  public:
    explicit KeyedHash(uint64_t secret) noexcept {
        Random random(secret);
        factor_ = wide(random);
        addend_ = wide(random);
    }
    uint64_t operator()(uint64_t value) const noexcept {
        auto h = static_cast<uint64_t>((factor_ * value + addend_) >> 64);
        h ^= h >> 33;
        h *= 0xff51afd7ed558ccdULL;
        h ^= h >> 33;
        h *= 0xc4ceb9fe1a85ec53ULL;
        return h ^ h >> 33;
    }

  private:
    using Wide = unsigned __int128;
    static Wide wide(Random& random) noexcept {
        const Wide high = random.next();
        return high << 64 | random.next();
    }

    Wide factor_;
    Wide addend_;
};

}  // namespace wss::kv::store
