// SPDX-License-Identifier: Apache-2.0
// Which partition holds a key. The fingerprint selects a hash slot. The hash slots are distributed evenly
// over the partitions, in order. The map is static. Its epoch, which clients and servers compare, is the
// number of partitions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/kv/types.h"

namespace wss::kv {

constexpr uint32_t kHashSlots = 16384;

inline uint32_t hash_slot(uint64_t fingerprint) noexcept {
    // Uses the top bits, because the low ones select buckets in hash tables.
    return static_cast<uint32_t>(fingerprint >> 50);
}
inline uint32_t partition_of(uint64_t fingerprint, uint32_t partitions) noexcept {
    return static_cast<uint32_t>(uint64_t{hash_slot(fingerprint)} * partitions / kHashSlots);
}

// Only the number of partitions decides where a key is; their addresses may differ between networks.
inline uint32_t map_epoch(uint32_t partitions) noexcept {
    return partitions;
}

std::vector<std::string> split_map(std::string_view map);
std::string join_map(const std::vector<std::string>& partitions);

}  // namespace wss::kv
