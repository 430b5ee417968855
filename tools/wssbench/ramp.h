// SPDX-License-Identifier: Apache-2.0
// The comparison of the systems of paper A.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/wssbench/context.h"

namespace wss::wssbench {

// At one point of the x axis: the ratio of each of `systems` to the system `base`, turn by turn. The bound of
// a system is the paper's ratio for the same system. If the paper has no such ratio, there is no bound.
struct RampComparison {
    std::string x;
    uint32_t at;
    std::string base;
    std::vector<std::pair<std::string, std::optional<double>>> systems;
};

// Adds "bounds" to a figure. The figure's bound and ratio are those of the last system that has a bound.
// Nothing is added if rows of a system are missing.
void compare(const RampComparison& comparison, Json& figure);

}  // namespace wss::wssbench
