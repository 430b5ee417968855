// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/finished.h"

#include <utility>

namespace wss::kv::store {

void FinishedSlots::set(size_t slot, uint64_t value) {
    auto& block = blocks_[slot / kBlock];
    if (block == nullptr) {
        block = std::make_unique<Block>();
        ++used_blocks_;
    }
    (*block)[slot % kBlock] = value;
}

// Entries after the gap that may be stored in it move there, because a search ends at the first empty slot.
void FinishedSlots::erase(uint64_t value) noexcept {
    size_t gap = find(value);
    size_t slot = (gap + 1) & mask_;
    for (uint64_t there = at(slot); there != 0; there = at(slot)) {
        if (((slot - home(there)) & mask_) >= ((slot - gap) & mask_)) {
            set(gap, there);
            gap = slot;
        }
        slot = (slot + 1) & mask_;
    }
    if (at(gap) != 0) set(gap, 0);
}

void FinishedSlots::free_block(size_t slot) noexcept {
    if (blocks_[slot / kBlock] == nullptr) return;
    blocks_[slot / kBlock].reset();
    --used_blocks_;
}

void Finished::add(Timestamp timestamp, Nanoseconds now, Kind kind) {
    if ((size() + 1) * 4 > slots_.slots() * 3) resize(slots_.slots() * 2);
    move_some();
    slots_.add(timestamp.value);
    queue(kind).push_back({timestamp, now});
}

void Finished::forget_oldest(Kind kind) {
    const uint64_t value = queue(kind).front().timestamp.value;
    slots_.has(value) ? slots_.erase(value) : former_.erase(value);
    queue(kind).pop_front();
    if (!is_moving() && slots_.slots() > kSlotsMin && size() * 8 < slots_.slots()) resize(slots_.slots() / 2);
    move_some();
}

void Finished::keep_oldest(Nanoseconds now, Kind kind) {
    queue(kind).push_back({queue(kind).front().timestamp, now});
    queue(kind).pop_front();
}

void Finished::resize(size_t slots) {
    former_ = std::exchange(slots_, FinishedSlots(slots, keyed_));
    looked_ = 0;
}

// Advances only past empty slots: a moved entry may be replaced by a later one.
void Finished::move_some() {
    for (size_t step = 0; step < kStep && is_moving(); ++step) {
        if (const uint64_t value = former_.at(looked_); value != 0) {
            slots_.add(value);
            former_.erase(value);
            continue;
        }
        if (++looked_ % FinishedSlots::kBlock == 0) former_.free_block(looked_ - 1);
    }
}

}  // namespace wss::kv::store
