// SPDX-License-Identifier: Apache-2.0
// Where keys were last seen in their partitions' arenas: bounded, shared by the threads of a process.
//
// What it says may be old: whoever reads at an address checks what he finds (slot_format.h V1–V3). An entry
// carries the arena's epoch, so that addresses of an earlier run of a server are not even tried.
//
// Four entries to a bucket, one sequence word each bucket: readers repeat, writers that meet another writer
// give up (it is a cache). A full bucket loses its oldest entry.
//
// Thread-safety: all functions, without locks.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "lib/kv/store/slot_format.h"

namespace wss::kv {

class AddressCache {
  public:
    explicit AddressCache(uint32_t entries);  // 0: remembers nothing

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
        std::atomic<uint32_t> next{0};      // the entry to lose
        std::array<Entry, kWays> entries;
    };
    // Takes the bucket for writing; false: somebody else has it.
    static bool take(Bucket& bucket, uint32_t& sequence) noexcept;
    Bucket& bucket_of(uint64_t fingerprint) const noexcept { return buckets_[fingerprint & mask_]; }

    uint32_t mask_ = 0;
    std::unique_ptr<Bucket[]> buckets_;  // nullptr: of no entries
};

}  // namespace wss::kv
