// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/plot.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "tools/wssbench/figure.h"
#include "tools/wssbench/program.h"
#include "tools/wssbench/text.h"

namespace wss::wssbench {

namespace {

constexpr size_t kLinesMax = 12;  // of one plot: more are indistinguishable; the table has the others
constexpr size_t kLabelsOfLine = 2;
constexpr double kPlotSeconds = 30;

// The values of the series' labels from `first` to before `last`.
std::vector<std::pair<std::string, std::string>> labels_of(const Json& figure, const Json& row, size_t first,
                                                           size_t last) {
    std::vector<std::pair<std::string, std::string>> labels;
    Json series = figure.value("series", Json::array());
    for (size_t i = first; i < std::min(last, series.size()); ++i) {
        std::string key = series[i].get<std::string>();
        std::string value = row.contains(key) ? cell(row[key]) : "";
        if (!value.empty()) labels.emplace_back(std::move(key), std::move(value));
    }
    return labels;
}

std::string plot_name(const Json& figure, const Json& row) {
    std::string name;
    for (const auto& [key, value] : labels_of(figure, row, kLabelsOfLine, SIZE_MAX))
        name += (name.empty() ? "" : ", ") + key + " " + value;
    return name;
}

std::string line_name(const Json& figure, const Json& row) {
    std::string name;
    for (const auto& [key, value] : labels_of(figure, row, 0, kLabelsOfLine))
        name += (name.empty() ? "" : " ") + value;
    return name.empty() ? "ours" : name;
}

// The element with this name, which is added if there is none.
template <typename Named>
Named& named(std::vector<Named>& all, const std::string& name) {
    auto found = std::ranges::find(all, name, &Named::name);
    return found == all.end() ? all.emplace_back(Named{name, {}}) : *found;
}

std::string quoted(std::string text) {
    for (char& c : text)
        if (c == '"' || c == '\\' || c == '\n') c = ' ';
    return '"' + text + '"';
}

std::string script_of(const Json& figure, const std::string& title, std::vector<Line> lines) {
    double least_x = 1, least_y = 1;
    std::string parts, data;
    for (Line& line : lines) {
        std::ranges::sort(line.points);
        const char* style = line.name.starts_with("paper") ? "points pt 3 ps 1.4" : "linespoints lw 2";
        parts += fmt::format("{}'-' using 1:2 with {} title {}", parts.empty() ? "plot " : ", ", style,
                             quoted(line.name));
        for (auto [x, y] : line.points) {
            data += fmt::format("{} {}\n", x, y);
            least_x = std::min(least_x, x);
            least_y = std::min(least_y, y);
        }
        data += "e\n";
    }
    std::string x = figure.value("x", "");
    return fmt::format(
        "set terminal svg size 560,360 font 'sans,11' background '#ffffff'\nset title {} noenhanced\n"
        "set xlabel {} noenhanced\nset ylabel {} noenhanced\nset key outside below noenhanced\nset grid\n{}{}"
        "set format y '%.0s%c'\n{}\n{}",
        quoted(title), quoted(x), quoted(figure.value("unit", "")),
        least_x > 0 && x != "read_percent" ? "set logscale x 2\n" : "", least_y > 0 ? "set logscale y\n" : "",
        parts, data);
}

}  // namespace

std::vector<Plot> plots_of(const Json& figure) {
    std::vector<Plot> plots;
    std::string x = figure.value("x", "");
    for (const Json& row : figure["rows"]) {
        if (!row.contains(x) || !row[x].is_number() || !row.contains("rate")) continue;
        Plot& plot = named(plots, plot_name(figure, row));
        named(plot.lines, line_name(figure, row))
            .points.emplace_back(row[x].get<double>(), row["rate"].get<double>());
    }
    return plots;
}

std::vector<Line> papers_lines(const Json& figure, const std::string& plot) {
    std::vector<Line> lines;
    for (const Json& value : figure.value("paper_values", Json::array())) {
        if (!value.contains("x")) continue;
        Json where = value.value("where", Json::object());
        bool comparable = std::ranges::any_of(figure["rows"], [&](const Json& row) {
            return plot_name(figure, row) == plot && has_labels(row, where);
        });
        std::string series = value.value("series", "");
        if (comparable)
            named(lines, series.empty() ? "paper" : "paper " + series)
                .points.emplace_back(value["x"].get<double>(), value["value"].get<double>());
    }
    return lines;
}

std::string svg(const Json& figure, const Plot& plot) {
    std::vector<Line> lines = plot.lines;
    size_t omitted = lines.size() > kLinesMax ? lines.size() - kLinesMax : 0;
    lines.resize(lines.size() - omitted);
    std::ranges::copy(papers_lines(figure, plot.name), std::back_inserter(lines));
    std::set<double> places;
    for (const Line& line : lines)
        for (const auto& point : line.points) places.insert(point.first);
    if (places.size() < 2) return "";
    std::string title = plot.name.empty() ? figure.value("title", "") : plot.name;
    if (omitted > 0) title += fmt::format(" ({} more lines in the table)", omitted);
    auto scratch = Scratch::create("");
    if (!scratch) return "";
    std::string script = (*scratch)->file("plot");
    std::ofstream(script) << script_of(figure, title, std::move(lines));
    auto drawn = output_of({"gnuplot", script}, kPlotSeconds, OnInterrupt::kIgnore);
    size_t start = drawn ? drawn->find("<svg") : std::string::npos;
    // Names inside an SVG are unique only there: nothing refers to them from outside.
    return start == std::string::npos ? "" : drawn->substr(start);
}

bool can_plot() {
    return output_of({"gnuplot", "--version"}, kPlotSeconds, OnInterrupt::kIgnore).is_ok();
}

}  // namespace wss::wssbench
