// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/plot.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "tools/wssbench/program.h"
#include "tools/wssbench/text.h"

namespace wss::wssbench {

namespace {

constexpr size_t kLinesMax = 12;  // of one plot: more are indistinguishable; the table has the others
constexpr double kPlotSeconds = 30;
constexpr double kBarsWidth = 0.8;   // of all bars of a category
constexpr double kLogarithmic = 20;  // a larger range of values gets a logarithmic axis

using Points = std::vector<std::pair<double, double>>;

struct Range {
    double low = std::numeric_limits<double>::max(), high = std::numeric_limits<double>::lowest();
    void add(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
};

// The place of x on the axis. A name that the axis lacks is added.
double place_of(const Json& x, std::vector<std::string>& categories) {
    if (x.is_number()) return x.get<double>();
    auto found = std::ranges::find(categories, x.get<std::string>());
    if (found == categories.end()) found = categories.insert(found, x.get<std::string>());
    return static_cast<double>(found - categories.begin());
}

// Adds the values of the paper. Those of one series are one line.
void add_papers_values(const Json& card, Plot& plot, const Range& across) {
    for (const Json& value : card.value("values", Json::array())) {
        double low = value["low"].get<double>(), high = value["high"].get<double>();
        std::string series = value["series"], name = series.empty() ? "paper" : "paper: " + series;
        auto line = std::ranges::find(plot.lines, name, &Line::name);
        if (line == plot.lines.end()) line = plot.lines.insert(line, {name, true, {}, {}});
        for (double y : {low, high}) {
            if (value.contains("x")) {
                line->points.emplace_back(place_of(value["x"], plot.categories), y);
            } else {
                line->across = true;
                line->points.emplace_back(across.low, y);
                line->points.emplace_back(across.high, y);
            }
            if (low == high) break;
        }
    }
}

std::string quoted(std::string text) {
    for (char& c : text)
        if (c == '"' || c == '\\' || c == '\n') c = ' ';
    return '"' + text + '"';
}

// A blank line ends a line of the plot.
std::string data_of(const Points& points, double shift) {
    std::string data;
    double last = std::numeric_limits<double>::lowest();
    for (auto [x, y] : points) {
        data += fmt::format("{}{} {}\n", x < last ? "\n" : "", x + shift, y);
        last = x;
    }
    return data + "e\n";
}

std::string axes_of(const Plot& plot, const Range& x, const Range& y) {
    std::string text;
    if (!plot.categories.empty()) {
        std::vector<std::string> tics;
        for (size_t i = 0; i < plot.categories.size(); ++i)
            tics.push_back(fmt::format("{} {}", quoted(plot.categories[i]), i));
        text = fmt::format("set xtics noenhanced ({})\nset xrange [-0.6:{}]\n", fmt::join(tics, ", "),
                           static_cast<double>(tics.size()) - 0.4);
    } else if (x.low > 0 && x.high / x.low > kLogarithmic) {
        text = "set logscale x 2\n";
    }
    text += y.high < 1000 ? "set format y '%g'\n" : "set format y '%.0s%c'\n";
    if (y.low > 0 && y.high / y.low > kLogarithmic) return text + "set logscale y\n";
    return text + "set yrange [0:*]\n";
}

// Adds a line to the plot command, and its data.
void draw(const Line& line, size_t number, double shift, bool bars, std::vector<std::string>& parts,
          std::string& data) {
    std::string style = fmt::format("{} lc {}", bars ? "boxes fs solid 0.4" : "linespoints lw 2", number);
    if (line.is_papers)
        style = fmt::format("{} lc rgb '#000000'", line.across ? "lines dt 2" : "points pt 3 ps 1.4");
    parts.push_back(fmt::format("'-' using 1:2 with {} title {}", style, quoted(line.name)));
    data += data_of(line.points, shift);
    if (line.turns.empty()) return;
    parts.push_back(fmt::format("'-' using 1:2 with points pt 7 ps 0.35 lc {} notitle", number));
    data += data_of(line.turns, shift);
}

std::string script_of(Plot plot) {
    Range x, y;
    std::vector<std::string> parts;
    std::string data;
    bool bars = !plot.categories.empty();
    auto ours = static_cast<size_t>(std::ranges::count(plot.lines, false, &Line::is_papers));
    double width = kBarsWidth / static_cast<double>(std::max<size_t>(ours, 1));
    size_t number = 0;
    for (Line& line : plot.lines) {
        if (!line.is_papers) std::ranges::sort(line.points);
        for (auto [at, value] : line.points) {
            x.add(at);
            y.add(value);
        }
        number += line.is_papers ? 0 : 1;
        double shift =
            bars && !line.is_papers ? (static_cast<double>(number) - 0.5) * width - kBarsWidth / 2 : 0;
        draw(line, number, shift, bars, parts, data);
    }
    return fmt::format(
        "set terminal svg size 640,400 font 'sans,11' background '#ffffff'\nset title {} noenhanced\n"
        "set xlabel {} noenhanced\nset ylabel {} noenhanced\nset key outside below noenhanced\nset grid y\n"
        "set boxwidth {}\n{}plot {}\n{}",
        quoted(plot.title), quoted(plot.x), quoted(plot.y), width * 0.9, axes_of(plot, x, y),
        fmt::join(parts, ", "), data);
}

}  // namespace

Plot plot_of(const Json& card) {
    Plot plot{cell(card["title"]), cell(card["x"]), cell(card["y"]), {}, {}};
    Range across;
    for (const Json& measured : card["measured"]) {
        Line line{measured["name"], false, {}, {}};
        for (const Json& point : measured["points"]) {
            double x = place_of(point["x"], plot.categories);
            across.add(x);
            line.points.emplace_back(x, point["y"].get<double>());
            for (const Json& turn : point["turns"]) line.turns.emplace_back(x, turn.get<double>());
        }
        plot.lines.push_back(std::move(line));
    }
    if (plot.lines.size() > kLinesMax) {
        plot.title += fmt::format(" ({} more lines in the table)", plot.lines.size() - kLinesMax);
        plot.lines.resize(kLinesMax);
    }
    add_papers_values(card, plot, across);
    return plot;
}

std::string svg(const Plot& plot) {
    auto scratch = Scratch::create("");
    if (!scratch) return "";
    std::string script = (*scratch)->file("plot");
    std::ofstream(script) << script_of(plot);
    auto drawn = output_of({"gnuplot", script}, kPlotSeconds, OnInterrupt::kIgnore);
    size_t start = drawn ? drawn->find("<svg") : std::string::npos;
    // Names inside an SVG are unique only there: nothing refers to them from outside.
    return start == std::string::npos ? "" : drawn->substr(start);
}

bool can_plot() {
    return output_of({"gnuplot", "--version"}, kPlotSeconds, OnInterrupt::kIgnore).is_ok();
}

}  // namespace wss::wssbench
