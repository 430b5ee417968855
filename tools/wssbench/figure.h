// SPDX-License-Identifier: Apache-2.0
// Figure: a set of points that are measured in turns, so that a temporary disturbance of the machine affects
// all points alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/wssbench/measure.h"

namespace wss::wssbench {

struct Point {
    Json labels;  // the row's first columns: {"connections": 4, "bytes": 512}
    std::function<Result<Sample>(const Window& window)> measure;
    double extra_seconds = 0.2;  // time for the setup, for the estimate of the remaining time
};

struct Figure {
    std::string name;   // "echo"
    std::string paper;  // "B figs 6, 7"
    std::string title;
    std::string unit = "operations/s";  // of "rate"
    std::string x;                      // label on the x axis of a plot
    std::vector<std::string> series;    // labels that distinguish the lines of a plot
    std::vector<Point> points;
    // Computes "bound" and "ratio" from the rows.
    std::function<void(Json& figure)> judge;
};

// Measures every point `repeats` times in turns, with progress on standard error. After an interruption the
// rows contain the finished measurements. A point that fails has "error" in its row, and the command fails at
// the end.
Json run(Context& context, const Figure& figure);

// The rows as text, one column for each key that any row has.
std::string table(const Json& rows);
// The text below the table: method, bound, ratio, the paper's values.
std::string notes(const Json& figure);

}  // namespace wss::wssbench
