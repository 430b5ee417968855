// SPDX-License-Identifier: Apache-2.0
// SlotIndex: writes the bucket index that remote readers use (index_format.h).
//
// An insertion splits at most one group, so growth never takes long. If the memory is used up, or a group is
// full, slots are left out of the index, and readers get their keys by RPC.
//
// Thread-safety: none. Only counters are kept outside the index itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "lib/kv/store/index_format.h"

namespace wss::kv::store {

class SlotIndex {
  public:
    // `memory` is zeroed and 64-byte aligned. If it is smaller than a group, there is no index.
    SlotIndex(std::span<std::byte> memory, uint64_t epoch);

    // Size of a full index for an arena of `arena_bytes`.
    static uint64_t bytes_for(uint64_t arena_bytes) {
        return std::min(arena_bytes / kArenaShare / kGroupBytes, uint64_t{1} << kGroupBitsMax) * kGroupBytes;
    }

    // Call it when the slot is published. Returns false if there is no room. The key is then found only by
    // RPC.
    bool insert(uint64_t fingerprint, const SlotAddress& slot);
    // Call it before the slot is freed.
    void erase(uint64_t fingerprint, const SlotAddress& slot);

    uint64_t bytes() const { return uint64_t{groups_max_} * kGroupBytes; }
    uint32_t groups() const { return groups_; }  // groups in use; only grows
    uint64_t entries() const { return entries_; }

  private:
    // The smallest keys take 256 bytes of the arena each. In an arena full of these, one key in eight is left
    // out.
    static constexpr uint64_t kArenaShare = 16;
    // A group is split above this average of entries per group. The groups that are split last then have
    // twice as many, of at most 28.
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
