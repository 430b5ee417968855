// SPDX-License-Identifier: Apache-2.0
// SlotIndex: writes the bucket index that remote readers look at (index_format.h).
//
// An insertion splits at most one group, so that growing never takes long. When the memory is used up, or a
// group is full, slots are left out: readers ask the server for their keys.
//
// Thread-safety: none. Nothing of the book-keeping is outside the index itself but its counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "lib/kv/store/index_format.h"

namespace wss::kv::store {

class SlotIndex {
  public:
    // `memory`: zeroed, 64-byte aligned; less than a group: there is no index.
    SlotIndex(std::span<std::byte> memory, uint64_t epoch);

    // Memory of a full index beside an arena of so many bytes.
    static uint64_t bytes_for(uint64_t arena_bytes) {
        return std::min(arena_bytes / kArenaShare / kGroupBytes, uint64_t{1} << kGroupBitsMax) * kGroupBytes;
    }

    // The slot is published. False: there is no room, and it is found by asking only.
    bool insert(uint64_t fingerprint, const SlotAddress& slot);
    // Before the slot is freed.
    void erase(uint64_t fingerprint, const SlotAddress& slot);

    uint64_t bytes() const { return uint64_t{groups_max_} * kGroupBytes; }
    uint32_t groups() const { return groups_; }  // in use; only grows
    uint64_t entries() const { return entries_; }

  private:
    // The smallest keys take 256 bytes of the arena each. If it is full of those, one in eight is left out.
    static constexpr uint64_t kArenaShare = 16;
    // Entries for each group, on average, beyond which a group is split. Those that wait longest for their
    // split have twice as many then, of 28.
    static constexpr uint64_t kSplitAbove = 8;

    struct Group;
    Group load(uint32_t number) const;
    void publish(const Group& group, uint32_t bucket);
    void split();

    const std::span<std::byte> memory_;
    const uint64_t epoch_;
    const uint32_t groups_max_;
    uint32_t groups_ = 0;
    uint64_t entries_ = 0;
};

}  // namespace wss::kv::store
