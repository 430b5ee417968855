// SPDX-License-Identifier: Apache-2.0
#include "lib/base/summary.h"

#include <algorithm>

namespace wss {

Summary summarise(std::vector<double> values) {
    if (values.empty()) return {};
    std::sort(values.begin(), values.end());
    size_t middle = values.size() / 2;
    double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
    double distance = std::max(median - values.front(), values.back() - median);
    return {median, values.front(), values.back(), median == 0 ? 0 : 100 * distance / median};
}

}  // namespace wss
