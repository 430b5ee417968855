// SPDX-License-Identifier: Apache-2.0
// The plots of a figure, drawn by gnuplot as SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/wssbench/context.h"

namespace wss::wssbench {

struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;
};

struct Plot {
    std::string name;  // the labels that all its lines share
    std::vector<Line> lines;
};

// The first two labels of "series" name a line, the others name a plot.
std::vector<Plot> plots_of(const Json& figure);

// The paper's values. A value appears only in the plots whose rows it may be compared with (its "where").
std::vector<Line> papers_lines(const Json& figure, const std::string& plot);

// The plot as SVG, or "" without gnuplot, or for fewer than two places on the x axis.
std::string svg(const Json& figure, const Plot& plot);

// True if gnuplot is installed.
bool can_plot();

}  // namespace wss::wssbench
