// SPDX-License-Identifier: Apache-2.0
// Finished: the recently committed transactions, by timestamp. Repeated messages and inquiries are answered
// from here. An ended transaction has an entry in a queue, in the order in which transactions ended, and one
// in a hash set. Together they take 27 to 37 bytes, up to 48 while the set grows, and more after a peak until
// it has shrunk. Shared transactions, about which other partitions may still inquire here, have a separate
// queue: they are kept longer.
//
// The set grows and shrinks incrementally: each call that adds or forgets moves a few entries from the former
// slots to the current ones. No call visits more than kStep former slots.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "lib/base/clock.h"
#include "lib/kv/store/keyed_hash.h"
#include "lib/kv/store/types.h"

namespace wss::kv::store {

// A hash set of values other than 0, with linear probing, in blocks. A block is allocated when it gets its
// first value, and freed only by free_block(). It does not grow.
class FinishedSlots {
  public:
    static constexpr size_t kBlock = 1024;
    // `slots` is a power of two, not less than a block.
    FinishedSlots(size_t slots, const KeyedHash& keyed)
        : keyed_(keyed), mask_(slots - 1), blocks_(slots / kBlock) {}

    size_t slots() const { return mask_ + 1; }
    size_t bytes() const { return used_blocks_ * sizeof(Block) + blocks_.size() * sizeof(blocks_[0]); }
    uint64_t at(size_t slot) const noexcept {
        const auto& block = blocks_[slot / kBlock];
        return block != nullptr ? (*block)[slot % kBlock] : 0;
    }
    bool has(uint64_t value) const noexcept { return at(find(value)) != 0; }
    // Requires that the value is absent and that there is room.
    void add(uint64_t value) { set(find(value), value); }
    void erase(uint64_t value) noexcept;
    // Requires that the block of `slot` is empty.
    void free_block(size_t slot) noexcept;

  private:
    using Block = std::array<uint64_t, kBlock>;
    size_t home(uint64_t value) const noexcept { return keyed_(value) & mask_; }
    size_t find(uint64_t value) const noexcept {
        size_t slot = home(value);
        for (uint64_t there = at(slot); there != 0 && there != value; there = at(slot))
            slot = (slot + 1) & mask_;
        return slot;
    }
    void set(size_t slot, uint64_t value);

    KeyedHash keyed_;
    size_t mask_;
    std::vector<std::unique_ptr<Block>> blocks_;
    size_t used_blocks_ = 0;
};

class Finished {
  public:
    struct Entry {
        Timestamp timestamp;
        Nanoseconds since{};
    };
    enum class Kind : uint8_t { kAlone, kShared };
    // Former slots that one call visits. All are done long before the set must grow or shrink again.
    static constexpr size_t kStep = 32;
    explicit Finished(uint64_t secret = 0)
        : keyed_(secret), slots_(kSlotsMin, keyed_), former_(kSlotsMin, keyed_), looked_(kSlotsMin) {}

    bool has(Timestamp timestamp) const noexcept {
        return slots_.has(timestamp.value) || (is_moving() && former_.has(timestamp.value));
    }
    // Requires that the timestamp is absent.
    void add(Timestamp timestamp, Nanoseconds now, Kind kind = Kind::kAlone);
    const Entry* oldest(Kind kind = Kind::kAlone) const {
        return queue(kind).empty() ? nullptr : &queue(kind).front();
    }
    void forget_oldest(Kind kind = Kind::kAlone);
    void keep_oldest(Nanoseconds now, Kind kind = Kind::kAlone);  // moves it to the end of the queue

    size_t size(Kind kind) const { return queue(kind).size(); }
    size_t size() const { return queues_[0].size() + queues_[1].size(); }
    size_t bytes() const {
        return size() * sizeof(Entry) + slots_.bytes() + (is_moving() ? former_.bytes() : 0);
    }
    // Former slots not yet visited.
    size_t left_to_move() const { return former_.slots() - looked_; }

  private:
    static constexpr size_t kSlotsMin = FinishedSlots::kBlock;

    std::deque<Entry>& queue(Kind kind) { return queues_[static_cast<size_t>(kind)]; }
    const std::deque<Entry>& queue(Kind kind) const { return queues_[static_cast<size_t>(kind)]; }
    bool is_moving() const { return looked_ < former_.slots(); }
    void resize(size_t slots);
    void move_some();

    const KeyedHash keyed_;                    // peers choose the timestamps
    std::array<std::deque<Entry>, 2> queues_;  // one queue for each kind
    FinishedSlots slots_;                      // at most three quarters full
    FinishedSlots former_;                     // entries that have not yet moved
    size_t looked_;                            // former slots below it are empty
};

}  // namespace wss::kv::store
