// SPDX-License-Identifier: Apache-2.0
// SlowLog: the latest kEntries requests that took longer than a limit, and a latency histogram of all
// requests.
//
// Thread-safety: none; belongs to its service.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "lib/base/clock.h"
#include "lib/wire/kv.h"

namespace wss::kv {

class SlowLog {
  public:
    static constexpr size_t kEntries = 64;
    static constexpr size_t kBuckets = 24;  // powers of two of microseconds; the last has all longer ones
    struct Entry {
        wire::KvKind kind{};
        uint32_t client = 0;
        uint32_t keys = 0;
        Nanoseconds at{};  // time since the service began
        Nanoseconds took{};
    };

    void add(const Entry& entry, Nanoseconds limit) noexcept {
        auto us = static_cast<uint64_t>(entry.took.count < 0 ? 0 : entry.took.count / 1000);
        size_t bucket = static_cast<size_t>(std::bit_width(us));
        ++buckets_[bucket < kBuckets ? bucket : kBuckets - 1];
        total_us_ += us;
        ++count_;
        if (entry.took < limit) return;
        entries_[slow_++ % kEntries] = entry;
    }
    uint64_t slow() const { return slow_; }
    uint64_t count() const { return count_; }
    uint64_t total_us() const { return total_us_; }
    // Oldest first; `index` is below min(slow(), kEntries).
    const Entry& entry(size_t index) const {
        return entries_[(slow_ > kEntries ? slow_ + index : index) % kEntries];
    }
    const std::array<uint64_t, kBuckets>& buckets() const { return buckets_; }

  private:
    std::array<Entry, kEntries> entries_{};
    std::array<uint64_t, kBuckets> buckets_{};
    uint64_t slow_ = 0, count_ = 0, total_us_ = 0;
};

}  // namespace wss::kv
