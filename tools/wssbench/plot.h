// SPDX-License-Identifier: Apache-2.0
// The plot of a card, drawn by gnuplot as SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/wssbench/context.h"

namespace wss::wssbench {

struct Line {
    std::string name;
    bool is_papers;
    std::vector<std::pair<double, double>> points;  // medians, or the paper's values
    std::vector<std::pair<double, double>> turns;   // every measurement, drawn as dots
    bool across = false;                            // the points belong to no place of the x axis
};

struct Plot {
    std::string title, x, y;
    std::vector<std::string> categories;  // the places 0, 1, … of the x axis; empty: it has numbers
    std::vector<Line> lines;
};

// The lines of a card with measurements (card.h). A value of the paper that belongs to no single point is a
// line across the plot, and a range two of them.
Plot plot_of(const Json& card);

// The plot as SVG, or "" without gnuplot.
std::string svg(const Plot& plot);

// True if gnuplot is installed.
bool can_plot();

}  // namespace wss::wssbench
