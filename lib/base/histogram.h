// SPDX-License-Identifier: Apache-2.0
// A histogram with a bounded relative error, like HdrHistogram: 2^kBits linear steps per power of two. Every
// value from 1 to kHighest has an error below 0.1 %, in constant time and memory.
//
// Thread-safety: none. Each thread records into its own histogram, and merge() adds them up.
#pragma once

#include <cstdint>
#include <vector>

namespace wss {

class Histogram {
  public:
    static constexpr uint32_t kBits = 10;                    // 1024 steps per power of two
    static constexpr uint64_t kHighest = uint64_t{1} << 42;  // larger values count as this one

    Histogram();
    void record(uint64_t value, uint64_t times = 1) noexcept;
    void merge(const Histogram& other) noexcept;
    void clear() noexcept;

    uint64_t count() const { return count_; }
    uint64_t min() const { return count_ == 0 ? 0 : min_; }
    uint64_t max() const { return max_; }
    double mean() const;
    double stddev() const;
    // Returns the smallest value v such that at least `percent` percent of the recorded values are at most v.
    // It is rounded up to the end of its step, but not above max().
    uint64_t percentile(double percent) const;

  private:
    std::vector<uint64_t> counts_;
    uint64_t count_ = 0, min_ = UINT64_MAX, max_ = 0;
    double sum_ = 0, squares_ = 0;
};

}  // namespace wss
