// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/finished.h"

namespace wss::kv::store {

void Finished::add(Timestamp timestamp, Nanoseconds now, Kind kind) {
    if ((size() + 1) * 4 > slots_.size() * 3) resize(slots_.size() * 2);
    slots_[find(timestamp.value)] = timestamp.value;
    queue(kind).push_back({timestamp, now});
}

void Finished::forget_oldest(Kind kind) {
    erase(queue(kind).front().timestamp.value);
    queue(kind).pop_front();
    if (slots_.size() > kSlotsMin && size() * 8 < slots_.size()) resize(slots_.size() / 2);
}

void Finished::keep_oldest(Nanoseconds now, Kind kind) {
    queue(kind).push_back({queue(kind).front().timestamp, now});
    queue(kind).pop_front();
}

// What stands behind the gap and may stand in it moves there, so that a search ends at the first empty slot.
void Finished::erase(uint64_t value) noexcept {
    const size_t mask = slots_.size() - 1;
    size_t gap = find(value);
    for (size_t at = (gap + 1) & mask; slots_[at] != 0; at = (at + 1) & mask) {
        if (((at - home(slots_[at])) & mask) < ((at - gap) & mask)) continue;
        slots_[gap] = slots_[at];
        gap = at;
    }
    slots_[gap] = 0;
}

void Finished::resize(size_t slots) {
    slots_.assign(slots, 0);
    if (slots_.capacity() > 2 * slots) slots_.shrink_to_fit();
    for (const auto& queue : queues_)
        for (const Entry& entry : queue) slots_[find(entry.timestamp.value)] = entry.timestamp.value;
}

}  // namespace wss::kv::store
