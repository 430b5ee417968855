// SPDX-License-Identifier: Apache-2.0
#include "lib/base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/base/clock.h"

namespace wss {
namespace {

TEST(Histogram, that_is_empty_returns_zero) {
    Histogram histogram;
    EXPECT_EQ(histogram.count(), 0u);
    EXPECT_EQ(histogram.min(), 0u);
    EXPECT_EQ(histogram.max(), 0u);
    EXPECT_EQ(histogram.percentile(99), 0u);
    EXPECT_EQ(histogram.mean(), 0);
}

TEST(Histogram, is_exact_for_small_values) {
    Histogram histogram;
    for (uint64_t value = 1; value <= 1000; ++value) histogram.record(value);
    EXPECT_EQ(histogram.percentile(50), 500u);
    EXPECT_EQ(histogram.percentile(99), 990u);
    EXPECT_EQ(histogram.percentile(100), 1000u);
    EXPECT_EQ(histogram.percentile(0), 1u);
    EXPECT_DOUBLE_EQ(histogram.mean(), 500.5);
    EXPECT_EQ(histogram.min(), 1u);
    EXPECT_EQ(histogram.max(), 1000u);
}

TEST(Histogram, has_every_percentile_within_a_thousandth_of_the_sorted_values) {
    Random random(7);
    Histogram one, other;
    std::vector<uint64_t> values;
    for (int i = 0; i < 200000; ++i) {
        uint64_t value = random.next() >> (24 + random.below(36));
        values.push_back(std::min(value, Histogram::kHighest));
        (i % 2 ? one : other).record(value);
    }
    one.merge(other);
    std::sort(values.begin(), values.end());
    for (double percent : {1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
        auto rank = static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(values.size())));
        auto exact = static_cast<double>(values[rank - 1]);
        EXPECT_NEAR(static_cast<double>(one.percentile(percent)), exact, exact * 0.001 + 0.5) << percent;
    }
    EXPECT_EQ(one.count(), values.size());
}

TEST(Histogram, counts_values_beyond_the_highest_as_the_highest) {
    Histogram histogram;
    histogram.record(UINT64_MAX);
    EXPECT_EQ(histogram.max(), Histogram::kHighest);
    EXPECT_EQ(histogram.percentile(50), Histogram::kHighest);
}

}  // namespace
}  // namespace wss
