// SPDX-License-Identifier: Apache-2.0
#include "tools/ycsb/hash.h"

#include <fmt/core.h>

namespace wss::ycsb {

uint64_t fnv_hash(uint64_t value) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (int octet = 0; octet < 8; ++octet) {
        hash ^= value & 0xff;
        hash *= 1099511628211u;
        value >>= 8;
    }
    return static_cast<int64_t>(hash) < 0 ? -hash : hash;
}

std::string key_name(uint64_t number, uint32_t padding, bool ordered) {
    return fmt::format("user{:0{}}", ordered ? number : fnv_hash(number), padding);
}

}  // namespace wss::ycsb
