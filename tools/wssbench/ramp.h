// SPDX-License-Identifier: Apache-2.0
// The comparison of the systems of paper A.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/wssbench/context.h"

namespace wss::wssbench {

// At one point of the x axis: the ratio of each of `systems` to the system `base`, turn by turn. The bound
// of a system is the paper's ratio of the same system; none if the paper lacks it.
struct RampComparison {
    std::string x;
    uint32_t at;
    std::string base;
    std::vector<std::pair<std::string, std::optional<double>>> systems;
};

// Adds "bounds" to a figure. Its bound and ratio are those of the last system with a bound. Without the rows
// of all systems nothing is added.
void compare(const RampComparison& comparison, Json& figure);

}  // namespace wss::wssbench
