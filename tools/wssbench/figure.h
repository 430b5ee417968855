// SPDX-License-Identifier: Apache-2.0
// Figure: a set of points that are measured in turns. A turn measures each point once, so that a temporary
// disturbance of the machine affects all points alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/wssbench/measure.h"

namespace wss::wssbench {

struct Point {
    Json labels;  // the row's first columns: {"connections": 4, "bytes": 512}
    std::function<Result<Sample>(const Window& window)> measure;
    double extra_seconds = 0.2;  // time for the setup, used to estimate the remaining time
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
    std::function<void(Json& figure)> add_ratio;
    std::string method;                // empty: described by the settings
    std::string measured = "seconds";  // or "counted instructions"
    std::string fabric;                // the fabric of all rows; empty: each row has a "fabric" or "where",
                                       // or none
    bool elsewhere = false;            // the other side is given by its address, and may be another machine
};

// Measures every point `repeats` times in turns, with progress on standard error. After an interruption the
// rows contain the finished measurements. A point that failed has "error" in its row, and the command fails
// at the end.
Json run(Context& context, const Figure& figure);

// The members of a figure that do not depend on its rows. run() adds the others. A figure whose rows another
// program measured gets the others from its own command.
Json head_of(const Context& context, const Figure& figure);

// Describes a measurement in seconds of this machine. `window` is its length and warm-up; if it is empty,
// those of the settings apply.
std::string method_of(const Settings& settings, const std::string& window = "");

// The labels of a row: its columns before the measured ones.
Json labels_of(const Json& row);
// These are for Figure::add_ratio.
bool has_labels(const Json& row, const Json& labels);
// The first row with these labels that has a rate, or nullptr. Adding a member to the figure that has `rows`
// invalidates the pointer.
const Json* row_of(const Json& rows, const Json& labels);
// The values of one column by turn; empty if the row lacks them.
std::vector<double> turns_of(const Json& row, const std::string& column);
// The ratio in each turn that both rows have.
std::vector<double> ratios_of_turns(const Json& row, const Json& bound, const std::string& column = "rate");
// {ratio, ratio_low, ratio_high}: the median and its 95 % confidence interval (lib/base/summary.h).
Json ratio_columns(const std::vector<double>& ratios);

}  // namespace wss::wssbench
