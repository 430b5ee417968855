// SPDX-License-Identifier: Apache-2.0
// SlotPool: which slots of one engine are taken. Every call is O(1), amortised; nothing is touched before it
// is used, so that a pool of millions of slots begins as fast as one of a few.
//
// Slots that were given back wait in a stack; those that were never taken are only counted, in ascending
// order. One that is taken by its number, at a recovery, stays where it is there, and is passed over when its
// turn comes.
//
// Thread-safety: belongs to the thread of its Index.
#pragma once

#include <cstdint>

#include "lib/cache/blocks.h"

namespace wss::cache {

class SlotPool {
  public:
    SlotPool() = default;
    // Slots [first, first + count).
    SlotPool(uint32_t first, uint32_t count) : first_(first), count_(count), entries_(count) {}

    uint32_t count() const { return count_; }
    uint32_t used() const { return used_; }
    bool full() const { return used_ == count_; }
    bool is_taken(uint32_t slot) const { return contains(slot) && entries_.get(slot - first_).taken; }

    // Any. Requires that it is not full().
    uint32_t take();
    // This one; false if it is taken, or is none of ours.
    bool take(uint32_t slot);
    void give_back(uint32_t slot);

  private:
    static constexpr uint32_t kNone = UINT32_MAX >> 2;
    struct Entry {
        uint32_t next : 30 = kNone;  // in the stack, if it is stacked
        uint32_t taken : 1 = 0;
        uint32_t stacked : 1 = 0;
    };
    bool contains(uint32_t slot) const { return slot >= first_ && slot - first_ < count_; }

    uint32_t first_ = 0, count_ = 0, used_ = 0;
    uint32_t fresh_ = 0;  // those from here on were never stacked
    uint32_t top_ = kNone;
    Blocks<Entry, 8192> entries_;
};

}  // namespace wss::cache
