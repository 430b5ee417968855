// SPDX-License-Identifier: Apache-2.0
// Finished: the transactions that were committed lately, by timestamp. Who sends one of their messages again,
// or inquires about one, is answered from here. Of a transaction that is over nothing else is kept: a queue
// in the order in which they ended, and a hash set; 24 to 32 bytes each. Shared ones, about which another
// partition may still have to inquire here, have a queue of their own: they are forgotten later.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "lib/base/clock.h"
#include "lib/kv/store/types.h"

namespace wss::kv::store {

// Timestamps differ in few bits: spreads them (MurmurHash3's finaliser).
inline uint64_t hash_of(Timestamp timestamp) noexcept {
    uint64_t h = timestamp.value;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdULL;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ULL;
    return h ^ h >> 33;
}

class Finished {
  public:
    struct Entry {
        Timestamp timestamp;
        Nanoseconds since{};
    };
    enum class Kind : uint8_t { kAlone, kShared };
    Finished() : slots_(kSlotsMin) {}

    bool has(Timestamp timestamp) const noexcept { return slots_[find(timestamp.value)] != 0; }
    // It is not there yet.
    void add(Timestamp timestamp, Nanoseconds now, Kind kind = Kind::kAlone);
    const Entry* oldest(Kind kind = Kind::kAlone) const {
        return queue(kind).empty() ? nullptr : &queue(kind).front();
    }
    void forget_oldest(Kind kind = Kind::kAlone);
    void keep_oldest(Nanoseconds now, Kind kind = Kind::kAlone);  // as if it had ended now

    size_t size(Kind kind) const { return queue(kind).size(); }
    size_t size() const { return queues_[0].size() + queues_[1].size(); }
    size_t bytes() const { return size() * sizeof(Entry) + slots_.size() * sizeof(uint64_t); }

  private:
    static constexpr size_t kSlotsMin = 1024;

    std::deque<Entry>& queue(Kind kind) { return queues_[static_cast<size_t>(kind)]; }
    const std::deque<Entry>& queue(Kind kind) const { return queues_[static_cast<size_t>(kind)]; }
    size_t home(uint64_t value) const noexcept { return hash_of({value}) & (slots_.size() - 1); }
    size_t find(uint64_t value) const noexcept {
        size_t at = home(value);
        while (slots_[at] != 0 && slots_[at] != value) at = (at + 1) & (slots_.size() - 1);
        return at;
    }
    void erase(uint64_t value) noexcept;
    void resize(size_t slots);

    std::array<std::deque<Entry>, 2> queues_;  // by kind
    std::vector<uint64_t> slots_;  // linear probing; 0: empty; a power of two, at most three quarters full
};

}  // namespace wss::kv::store
