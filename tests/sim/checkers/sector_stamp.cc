// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/checkers/sector_stamp.h"

#include <cstring>

namespace wss::sim {

// The first word is the id. The other words are derived from the id, the sector's number and their position.
void stamp_sector(std::byte* sector, uint64_t number, uint64_t id) {
    uint64_t words[kSectorBytes / 8];
    for (uint64_t i = 0; i < kSectorBytes / 8; ++i)
        words[i] = id == 0 ? 0 : id * 0x9e3779b97f4a7c15u + number * 31 + i;
    if (id != 0) words[0] = id;
    std::memcpy(sector, words, kSectorBytes);
}

uint64_t read_stamp(const std::byte* sector, uint64_t number) {
    uint64_t id;
    std::memcpy(&id, sector, sizeof id);
    std::byte expected[kSectorBytes];
    stamp_sector(expected, number, id);
    return std::memcmp(sector, expected, kSectorBytes) == 0 ? id : UINT64_MAX;
}

}  // namespace wss::sim
