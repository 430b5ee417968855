// SPDX-License-Identifier: Apache-2.0
// A figure: points that are measured in turns, so that what disturbs the machine for a while disturbs all
// alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/wssbench/measure.h"

namespace wss::wssbench {

struct Point {
    Json labels;  // the row's first columns: {"connections": 4, "bytes": 512}
    std::function<Result<Sample>(const Window& window)> measure;
    double extra_seconds = 0.2;  // what setting it up takes, for the estimate of the time left
};

struct Figure {
    std::string name;   // "echo"
    std::string paper;  // "B figs 6, 7"
    std::string title;
    std::string unit = "operations/s";  // of "rate"
    std::string x;                      // label that a plot has on its x axis
    std::vector<std::string> series;    // labels that tell its lines apart
    std::vector<Point> points;
    // Sets "bound" and "ratio", from the rows.
    std::function<void(Json& figure)> judge;
};

// Measures every point `repeats` times in turns, telling progress on standard error. What an interruption
// left done is in the rows. A point that fails has "error" in its row, and the command fails in the end.
Json run(Context& context, const Figure& figure);

// The rows as text, one column for each key that any row has.
std::string table(const Json& rows);
// What is known without a table: method, bound, ratio, the paper's values.
std::string notes(const Json& figure);

}  // namespace wss::wssbench
