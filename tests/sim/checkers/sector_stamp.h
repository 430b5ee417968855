// SPDX-License-Identifier: Apache-2.0
// The contents of the sectors of a write. They contain the id of the write (SectorModel), and show whether a
// sector is a mixture of two writes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wss::sim {

constexpr uint64_t kSectorBytes = 512;

// Fills a sector as write `id` does. Id 0 means zeroes.
void stamp_sector(std::byte* sector, uint64_t number, uint64_t id);
// Returns the id of an intact sector, or UINT64_MAX for a sector that no write has produced.
uint64_t read_stamp(const std::byte* sector, uint64_t number);

}  // namespace wss::sim
