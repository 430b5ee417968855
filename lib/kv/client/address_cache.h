// SPDX-License-Identifier: Apache-2.0
// AddressCache: the last known slot addresses of keys in their partitions' arenas. Bounded; shared by the
// threads of a process.
//
// Entries may be stale: a reader must verify what it finds at an address (slot_format.h V1–V3). An entry
// carries the arena's epoch, so addresses of an earlier run of a server are never tried.
//
// A bucket has four entries and one sequence word. Readers retry; a writer that meets another writer gives up
// (this is only a cache). A full bucket replaces its entries in turn.
//
// Thread-safety: all functions may be called from any thread; they take no locks.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "lib/kv/store/slot_format.h"

namespace wss::kv {

class AddressCache {
  public:
    explicit AddressCache(uint32_t entries);  // 0: caches nothing

    bool find(uint64_t fingerprint, uint64_t epoch, store::SlotAddress& found) const noexcept;
    void put(uint64_t fingerprint, uint64_t epoch, const store::SlotAddress& address) noexcept;
    void forget(uint64_t fingerprint) noexcept;
    uint32_t capacity() const { return buckets_ == nullptr ? 0 : (mask_ + 1) * kWays; }

  private:
    static constexpr uint32_t kWays = 4;
    using Word = std::atomic<uint64_t>;
    struct Entry {
        Word fingerprint{0}, epoch{0}, offset{0}, size_and_incarnation{0};
    };
    struct alignas(64) Bucket {
        std::atomic<uint32_t> sequence{0};  // odd: being written
        std::atomic<uint32_t> next{0};      // the entry to replace next
        std::array<Entry, kWays> entries;
    };
    // Takes the bucket for writing. Returns false if another writer has it.
    static bool take(Bucket& bucket, uint32_t& sequence) noexcept;
    Bucket& bucket_of(uint64_t fingerprint) const noexcept { return buckets_[fingerprint & mask_]; }

    uint32_t mask_ = 0;
    std::unique_ptr<Bucket[]> buckets_;  // nullptr: no entries
};

}  // namespace wss::kv
