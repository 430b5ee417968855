// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/slot_pool.h"

#include "lib/base/assert.h"

namespace wss::cache {

uint32_t SlotPool::take() {
    WSS_ASSERT(!full(), "the caller has made room");
    for (;;) {
        const uint32_t inside = top_ != kNone ? top_ : fresh_++;
        Entry& slot = entries_.make(inside);
        if (slot.stacked && top_ == inside) {
            top_ = slot.next;
            slot.stacked = 0;
        }
        if (slot.taken) continue;  // taken by its number
        slot.taken = 1;
        ++used_;
        return first_ + inside;
    }
}

bool SlotPool::take(uint32_t slot) {
    if (!contains(slot) || is_taken(slot)) return false;
    entries_.make(slot - first_).taken = 1;
    ++used_;
    return true;
}

void SlotPool::give_back(uint32_t slot) {
    WSS_ASSERT(is_taken(slot), "a slot is returned once");
    const uint32_t inside = slot - first_;
    Entry& given = entries_.make(inside);
    given.taken = 0;
    --used_;
    // A slot that was taken by its number may still be in the stack or among those never taken.
    if (given.stacked || inside >= fresh_) return;
    given.stacked = 1;
    given.next = top_;
    top_ = inside;
}

}  // namespace wss::cache
