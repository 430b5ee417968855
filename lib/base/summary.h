// SPDX-License-Identifier: Apache-2.0
// Repeated measurements of one thing: which value to report, and how much to believe it.
#pragma once

#include <vector>

namespace wss {

struct Summary {
    double median = 0, min = 0, max = 0;
    // The largest distance from the median, in percent of it.
    double spread_percent = 0;
};

struct Interval {
    double low = 0, high = 0;
};

// Of an even number of values the median is the mean of the middle two; of none all is zero.
Summary summarise(std::vector<double> values);

// Of things measured in turns (the n-th value of each is of turn n): the ratios of each turn's value to the
// smallest of the same turn among `bounds`. What disturbs a machine for longer than a turn disturbs all of
// the turn and cancels out; in a ratio of medians, which are of different turns, it does not. Turns that one
// of them lacks, or has nothing above zero in, do not count.
std::vector<double> ratios_in_turns(const std::vector<double>& values,
                                    const std::vector<std::vector<double>>& bounds);
Summary ratio_in_turns(const std::vector<double>& values, const std::vector<std::vector<double>>& bounds);

// The 95 % interval of the median by the percentile bootstrap (Efron 1979), with resamples from a fixed seed,
// so that equal values have an equal interval. Of a single value it is that value; of none it is zero.
Interval interval_of_median(const std::vector<double>& values);

}  // namespace wss
