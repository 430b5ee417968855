// SPDX-License-Identifier: Apache-2.0
// Big-endian integers in byte strings: SCSI and SRP send the most significant byte first, at any alignment.
// The caller has checked that the bytes exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace wss::wire {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the swaps below assume it");

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

inline uint8_t get8(const std::byte* at) {
    return std::to_integer<uint8_t>(*at);
}

inline uint16_t get16(const std::byte* at) {
    uint16_t value;
    std::memcpy(&value, at, sizeof(value));
    return __builtin_bswap16(value);
}

inline uint32_t get24(const std::byte* at) {
    return uint32_t{get8(at)} << 16 | uint32_t{get8(at + 1)} << 8 | get8(at + 2);
}

inline uint32_t get32(const std::byte* at) {
    uint32_t value;
    std::memcpy(&value, at, sizeof(value));
    return __builtin_bswap32(value);
}

inline uint64_t get64(const std::byte* at) {
    uint64_t value;
    std::memcpy(&value, at, sizeof(value));
    return __builtin_bswap64(value);
}

inline void put8(std::byte* at, uint8_t value) {
    *at = std::byte{value};
}

inline void put16(std::byte* at, uint16_t value) {
    value = __builtin_bswap16(value);
    std::memcpy(at, &value, sizeof(value));
}

inline void put32(std::byte* at, uint32_t value) {
    value = __builtin_bswap32(value);
    std::memcpy(at, &value, sizeof(value));
}

inline void put64(std::byte* at, uint64_t value) {
    value = __builtin_bswap64(value);
    std::memcpy(at, &value, sizeof(value));
}

}  // namespace wss::wire
