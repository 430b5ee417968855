// SPDX-License-Identifier: Apache-2.0
#include "lib/base/summary.h"

#include <algorithm>
#include <random>
#include <utility>

namespace wss {

Summary summarise(std::vector<double> values) {
    if (values.empty()) return {};
    std::sort(values.begin(), values.end());
    size_t middle = values.size() / 2;
    double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
    double distance = std::max(median - values.front(), values.back() - median);
    return {median, values.front(), values.back(), median == 0 ? 0 : 100 * distance / median};
}

std::vector<double> ratios_in_turns(const std::vector<double>& values,
                                    const std::vector<std::vector<double>>& bounds) {
    size_t turns = bounds.empty() ? 0 : values.size();
    for (const auto& bound : bounds) turns = std::min(turns, bound.size());
    std::vector<double> ratios;
    for (size_t turn = 0; turn < turns; ++turn) {
        double smallest = bounds.front()[turn];
        for (const auto& bound : bounds) smallest = std::min(smallest, bound[turn]);
        if (values[turn] > 0 && smallest > 0) ratios.push_back(values[turn] / smallest);
    }
    return ratios;
}

std::vector<double> best_in_turns(const std::vector<std::vector<double>>& settings) {
    size_t turns = 0;
    for (const auto& values : settings) turns = std::max(turns, values.size());
    std::vector<double> best;
    for (size_t turn = 0; turn < turns; ++turn) {
        const std::vector<double>* chosen = nullptr;
        double highest = 0;
        for (const auto& values : settings) {
            if (values.size() <= turn) continue;  // failed before this turn
            std::vector<double> others = values;
            if (turns > 1) others.erase(others.begin() + static_cast<long>(turn));
            double median = summarise(std::move(others)).median;
            if (chosen != nullptr && median <= highest) continue;
            chosen = &values;
            highest = median;
        }
        best.push_back((*chosen)[turn]);
    }
    return best;
}

Interval interval_of_median(const std::vector<double>& values) {
    constexpr size_t kResamples = 2000;
    if (values.empty()) return {};
    std::mt19937_64 random(1);
    std::vector<double> medians, resample(values.size());
    for (size_t i = 0; i < kResamples; ++i) {
        for (double& value : resample) value = values[random() % values.size()];
        medians.push_back(summarise(resample).median);
    }
    std::sort(medians.begin(), medians.end());
    return {medians[kResamples / 40], medians[kResamples - 1 - kResamples / 40]};
}

}  // namespace wss
