// SPDX-License-Identifier: Apache-2.0
// Access to fields in the registered memory that remote readers see (slot_format.h, index_format.h):
// little-endian, unaligned.
//
// Thread-safety: pure functions on the caller's memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

namespace wss::kv::store {

static_assert(std::endian::native == std::endian::little, "fields are copied as they are in memory");

template <typename T>
T load(const std::byte* from) noexcept {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <typename T>
void store(std::byte* to, T value) noexcept {
    std::memcpy(to, &value, sizeof value);
}

}  // namespace wss::kv::store
