// SPDX-License-Identifier: Apache-2.0
#include "lib/base/summary.h"

#include <gtest/gtest.h>

namespace wss {
namespace {

TEST(Summary, one_outlier_does_not_move_the_median_but_shows_in_the_spread) {
    Summary summary = summarise({100, 500, 110});
    EXPECT_DOUBLE_EQ(summary.median, 110);
    EXPECT_DOUBLE_EQ(summary.min, 100);
    EXPECT_DOUBLE_EQ(summary.max, 500);
    EXPECT_NEAR(summary.spread_percent, 354.5, 0.1);
}

TEST(Summary, the_median_of_an_even_number_is_between_the_middle_two) {
    EXPECT_DOUBLE_EQ(summarise({4, 1, 2, 3}).median, 2.5);
}

TEST(Summary, nothing_measured_is_zero_and_equal_values_have_no_spread) {
    EXPECT_DOUBLE_EQ(summarise({}).median, 0);
    EXPECT_DOUBLE_EQ(summarise({7, 7, 7}).spread_percent, 0);
    EXPECT_DOUBLE_EQ(summarise({0, 0}).spread_percent, 0);
}

}  // namespace
}  // namespace wss
