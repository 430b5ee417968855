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

// Of an even number of values the median is the mean of the middle two; of none all is zero.
Summary summarise(std::vector<double> values);

}  // namespace wss
