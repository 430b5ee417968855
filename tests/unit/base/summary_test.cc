// SPDX-License-Identifier: Apache-2.0
#include "lib/base/summary.h"

#include <gtest/gtest.h>

namespace wss {
namespace {

TEST(Summary, shows_one_outlier_in_the_spread_and_not_in_the_median) {
    Summary summary = summarise({100, 500, 110});
    EXPECT_DOUBLE_EQ(summary.median, 110);
    EXPECT_DOUBLE_EQ(summary.min, 100);
    EXPECT_DOUBLE_EQ(summary.max, 500);
    EXPECT_NEAR(summary.spread_percent, 354.5, 0.1);
}

TEST(Summary, of_an_even_number_has_its_median_between_the_middle_two) {
    EXPECT_DOUBLE_EQ(summarise({4, 1, 2, 3}).median, 2.5);
}

TEST(Summary, of_no_values_is_zero_and_of_equal_values_has_no_spread) {
    EXPECT_DOUBLE_EQ(summarise({}).median, 0);
    EXPECT_DOUBLE_EQ(summarise({7, 7, 7}).spread_percent, 0);
    EXPECT_DOUBLE_EQ(summarise({0, 0}).spread_percent, 0);
}

// The machine slows down from turn to turn. The values are 0.9 of the smaller bound in all turns but one.
TEST(RatioInTurns, is_not_affected_by_the_speed_of_a_whole_turn) {
    const std::vector<double> first = {100, 50, 25, 20, 10}, second = {200, 100, 20, 40, 20};
    const std::vector<double> values = {90, 45, 18, 40, 9};
    Summary ratio = summarise(ratios_in_turns(values, {first, second}));
    EXPECT_DOUBLE_EQ(ratio.median, 0.9);
    EXPECT_DOUBLE_EQ(ratio.max, 2);
    EXPECT_NEAR(ratio.spread_percent, 122.2, 0.1);
    EXPECT_DOUBLE_EQ(summarise(values).median / summarise(first).median, 1.6) << "the ratio of the medians";
}

TEST(RatioInTurns, ignores_turns_in_which_one_side_has_no_value) {
    EXPECT_DOUBLE_EQ(summarise(ratios_in_turns({1, 3, 5}, {{1, 1, 1}, {2, 2}})).median, 2);
    EXPECT_DOUBLE_EQ(summarise(ratios_in_turns({1, 0, 5}, {{1, 1, 0}})).median, 1);
    EXPECT_DOUBLE_EQ(summarise(ratios_in_turns({1}, {{}})).median, 0);
    EXPECT_DOUBLE_EQ(summarise(ratios_in_turns({1}, {})).median, 0);
}

TEST(BestInTurns, chooses_the_settings_of_a_turn_by_the_other_turns) {
    EXPECT_EQ(best_in_turns({{10, 1, 1}, {2, 2, 2}}), (std::vector<double>{2, 1, 1}))
        << "an outlier must not select its own setting";
    EXPECT_EQ(best_in_turns({{5, 5, 5}, {2, 2, 2}}), (std::vector<double>{5, 5, 5}));
}

TEST(BestInTurns, uses_the_highest_value_if_there_is_a_single_turn) {
    EXPECT_EQ(best_in_turns({{1}, {3}, {2}}), (std::vector<double>{3}));
    EXPECT_TRUE(best_in_turns({}).empty());
}

TEST(BestInTurns, ignores_settings_that_failed_before_the_turn) {
    EXPECT_EQ(best_in_turns({{9}, {2, 2}}), (std::vector<double>{2, 2}));
}

TEST(IntervalOfMedian, encloses_the_median_and_is_the_same_each_time) {
    const std::vector<double> values = {0.9, 1.1, 1.0, 0.95, 1.05, 1.02, 0.98, 3};
    Interval interval = interval_of_median(values);
    EXPECT_LT(interval.low, summarise(values).median);
    EXPECT_GT(interval.high, summarise(values).median);
    EXPECT_GE(interval.low, 0.9);
    EXPECT_LT(interval.high, 3) << "one outlier of eight does not reach the interval of the median";
    EXPECT_EQ(interval.low, interval_of_median(values).low);
    EXPECT_EQ(interval.high, interval_of_median(values).high);
}

TEST(IntervalOfMedian, is_a_point_for_equal_values_and_for_one_value) {
    EXPECT_DOUBLE_EQ(interval_of_median({2, 2, 2}).low, 2);
    EXPECT_DOUBLE_EQ(interval_of_median({2, 2, 2}).high, 2);
    EXPECT_DOUBLE_EQ(interval_of_median({5}).low, 5);
    EXPECT_DOUBLE_EQ(interval_of_median({}).high, 0);
}

}  // namespace
}  // namespace wss
