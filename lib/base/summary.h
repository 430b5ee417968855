// SPDX-License-Identifier: Apache-2.0
// Statistics of repeated measurements: which value to report, and how reliable it is.
#pragma once

#include <vector>

namespace wss {

struct Summary {
    double median = 0, min = 0, max = 0;
    // The largest deviation from the median, in percent of the median.
    double spread_percent = 0;
};

struct Interval {
    double low = 0, high = 0;
};

// For an even number of values the median is the mean of the middle two. Without values all members are zero.
Summary summarise(std::vector<double> values);

// For quantities that are measured in turns (the n-th value of each belongs to turn n): returns the ratio of
// each turn's value to the smallest one of `bounds` in the same turn. A disturbance of the machine that is
// longer than a turn affects all values of the turn and cancels out. It does not cancel out in a ratio of
// medians, which come from different turns. Turns in which a value is missing, or a divisor or dividend is
// not above zero, are left out.
std::vector<double> ratios_in_turns(const std::vector<double>& values,
                                    const std::vector<std::vector<double>>& bounds);

// The values of the best of several settings, turn by turn. Each turn uses the settings with the highest
// median of the *other* turns. A choice by the reported values themselves would favour those that are high by
// chance. If there is only one turn, its own values decide.
std::vector<double> best_in_turns(const std::vector<std::vector<double>>& settings);

// The 95 % confidence interval of the median by the percentile bootstrap (Efron 1979). Resampling uses a
// fixed seed, so that equal values give an equal interval. The interval of a single value contains only this
// value. Without values both ends are zero.
Interval interval_of_median(const std::vector<double>& values);

}  // namespace wss
