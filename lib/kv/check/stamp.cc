// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/check/stamp.h"

#include <xxhash.h>

#include <cstring>

#include "lib/base/assert.h"

namespace wss::kv::check {

namespace {

constexpr uint64_t kMagic = 0x315350574b535357;  // "WSSKWPS1"

// The fields are in this machine's byte order, because all machines of a run are of the same kind.
struct Head {
    uint64_t magic;
    uint32_t run, session;
    uint64_t sequence, key;
    uint32_t siblings, length;
};
static_assert(sizeof(Head) == 40, "no padding: the bytes are checksummed");

constexpr size_t kChecksumBytes = 8;

uint64_t checksum(std::string_view value) {
    return XXH3_64bits_withSeed(value.data(), value.size() - kChecksumBytes, kMagic);
}

// Fills eight bytes at a time from a counter. This is cheap, and different for every value, so that a mixture
// of two values is detected.
void fill(char* out, size_t length, uint64_t seed) {
    for (; length >= 8; out += 8, length -= 8) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        std::memcpy(out, &seed, 8);
    }
    std::memset(out, 0x5a, length);
}

}  // namespace

size_t stamp_bytes(size_t siblings) {
    return sizeof(Head) + siblings * sizeof(uint64_t) + kChecksumBytes;
}

void write_stamp(std::string& value, size_t length, const Writer& writer, uint64_t key,
                 std::span<const uint64_t> siblings) {
    WSS_ASSERT(length >= stamp_bytes(siblings.size()),
               "the caller has compared the length with stamp_bytes()");
    value.resize(length);
    Head head{kMagic,
              writer.run,
              writer.session,
              writer.sequence,
              key,
              static_cast<uint32_t>(siblings.size()),
              static_cast<uint32_t>(length)};
    std::memcpy(value.data(), &head, sizeof head);
    std::memcpy(value.data() + sizeof head, siblings.data(), siblings.size_bytes());
    size_t used = sizeof head + siblings.size_bytes();
    fill(value.data() + used, length - kChecksumBytes - used, key ^ writer.sequence << 20 ^ writer.session);
    uint64_t sum = checksum(value);
    std::memcpy(value.data() + length - kChecksumBytes, &sum, sizeof sum);
}

StampState read_stamp(std::string_view value, Stamp& stamp) {
    Head head;
    if (value.size() < stamp_bytes(0)) return StampState::kForeign;
    std::memcpy(&head, value.data(), sizeof head);
    uint64_t sum;
    std::memcpy(&sum, value.data() + value.size() - kChecksumBytes, sizeof sum);
    bool fits = sum == checksum(value);
    if (head.magic != kMagic) return fits ? StampState::kTorn : StampState::kForeign;
    if (!fits || head.length != value.size() ||
        head.siblings > (value.size() - stamp_bytes(0)) / sizeof(uint64_t))
        return StampState::kTorn;
    stamp.writer = {head.run, head.session, head.sequence};
    stamp.key = head.key;
    stamp.siblings.resize(head.siblings);
    std::memcpy(stamp.siblings.data(), value.data() + sizeof head, head.siblings * sizeof(uint64_t));
    return StampState::kGood;
}

}  // namespace wss::kv::check
