// SPDX-License-Identifier: Apache-2.0
// SlotPool: the free and taken slots of one engine. Every call takes amortized constant time. No entry is
// accessed before its slot is used, so a pool of millions of slots is created as fast as a small one.
//
// Returned slots form a stack. Slots from `fresh_` on were never in it, and are taken in ascending order. A
// slot that recovery takes by its number stays where it is, and take() skips it later.
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

    // Takes any slot. Requires that the pool is not full().
    uint32_t take();
    // Takes this slot. False if it is taken or outside the pool.
    bool take(uint32_t slot);
    void give_back(uint32_t slot);

  private:
    static constexpr uint32_t kNone = UINT32_MAX >> 2;
    struct Entry {
        uint32_t next : 30 = kNone;  // the next slot in the stack, if `stacked`
        uint32_t taken : 1 = 0;
        uint32_t stacked : 1 = 0;
    };
    bool contains(uint32_t slot) const { return slot >= first_ && slot - first_ < count_; }

    uint32_t first_ = 0, count_ = 0, used_ = 0;
    uint32_t fresh_ = 0;  // slots from here on were never in the stack
    uint32_t top_ = kNone;
    Blocks<Entry, 8192> entries_;
};

}  // namespace wss::cache
