// SPDX-License-Identifier: Apache-2.0
// Conversion between a message's bytes and its struct in kernel/uapi/wss_srp.h. For srp_*.cc and cache.cc
// only.
#pragma once

#include <cstring>
#include <type_traits>

#include "lib/wire/srp.h"

namespace wss::wire::detail {

inline uint16_t swap(uint16_t value) {
    return __builtin_bswap16(value);
}
inline uint32_t swap(uint32_t value) {
    return __builtin_bswap32(value);
}
inline uint64_t swap(uint64_t value) {
    return __builtin_bswap64(value);
}

// Returns false when the message is shorter than the struct. It may be longer.
template <typename Raw>
requires std::is_trivially_copyable_v<Raw>
bool load(Bytes message, Raw& raw) {
    if (message.size() < sizeof(Raw)) return false;
    std::memcpy(&raw, message.data(), sizeof(Raw));
    return true;
}

// Returns the bytes written, 0 when `out` is too small.
template <typename Raw>
requires std::is_trivially_copyable_v<Raw> size_t store(const Raw& raw, MutableBytes out) {
    if (out.size() < sizeof(Raw)) return 0;
    std::memcpy(out.data(), &raw, sizeof(Raw));
    return sizeof(Raw);
}

// Credits are signed on the wire. A correct peer never sends a negative number.
inline constexpr uint32_t kCreditsMax = 0x7fffffff;

}  // namespace wss::wire::detail
