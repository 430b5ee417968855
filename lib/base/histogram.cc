// SPDX-License-Identifier: Apache-2.0
#include "lib/base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace wss {

// Each value below 2 * kSteps has its own step. Above that, each power of two has kSteps steps.
constexpr uint64_t kSteps = uint64_t{1} << Histogram::kBits;

static size_t index_of(uint64_t value) {
    if (value < 2 * kSteps) return value;
    unsigned shift = std::bit_width(value) - 1 - Histogram::kBits;
    return (shift << Histogram::kBits) + (value >> shift);
}

// The highest value in step `index`.
static uint64_t highest_of(size_t index) {
    if (index < 2 * kSteps) return index;
    unsigned shift = static_cast<unsigned>(index >> Histogram::kBits) - 1;
    uint64_t step = (index & (kSteps - 1)) + kSteps;
    return ((step + 1) << shift) - 1;
}

Histogram::Histogram() : counts_(index_of(kHighest) + 1) {}

void Histogram::record(uint64_t value, uint64_t times) noexcept {
    value = std::min(value, kHighest);
    counts_[index_of(value)] += times;
    count_ += times;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
    double real = static_cast<double>(value), many = static_cast<double>(times);
    sum_ += real * many;
    squares_ += real * real * many;
}

void Histogram::merge(const Histogram& other) noexcept {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
    sum_ += other.sum_;
    squares_ += other.squares_;
}

void Histogram::clear() noexcept {
    *this = Histogram();
}

double Histogram::mean() const {
    return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

double Histogram::stddev() const {
    if (count_ == 0) return 0;
    return std::sqrt(std::max(0.0, squares_ / static_cast<double>(count_) - mean() * mean()));
}

uint64_t Histogram::percentile(double percent) const {
    auto wanted = static_cast<uint64_t>(std::ceil(percent / 100 * static_cast<double>(count_)));
    wanted = std::clamp<uint64_t>(wanted, 1, std::max<uint64_t>(count_, 1));
    uint64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i)
        if (seen += counts_[i]; seen >= wanted) return std::min(highest_of(i), max_);
    return max_;
}

}  // namespace wss
