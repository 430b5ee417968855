// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/wssbench/figure.h"

namespace wss::wssbench {

namespace {

constexpr double kConclusive = 1.25;  // a wider interval shows only the order of magnitude
constexpr uint32_t kTurnsMin = 5;     // with fewer values, the interval is their whole range
constexpr double kLimitMargin = 1.02;
constexpr double kReachedMin = 95;  // percent; the operations in flight at both ends of a window change the
                                    // result by less

// The labels of a row of bounds, or the name of the figure.
std::string subject_of(const Json& row, const Json& figure) {
    std::vector<std::string> keys = {"of", "system"}, labels;
    if (figure.contains("series"))
        for (const Json& key : figure["series"])
            if (std::ranges::find(keys, key.get<std::string>()) == keys.end()) keys.push_back(key);
    if (&row != &figure)
        for (const std::string& key : keys)
            if (row.contains(key)) labels.push_back(cell(row[key]));
    return labels.empty() ? figure["figure"].get<std::string>() : fmt::format("{}", fmt::join(labels, ", "));
}

bool has_few_turns(const Json& figure) {
    if (!figure.contains("rows") || figure["rows"].empty()) return false;
    return std::ranges::all_of(figure["rows"],
                               [](const Json& row) { return row.value("repeats", 0u) < kTurnsMin; });
}

// If too few reads of a row reached storage or the target: the row with the smallest share of them.
void add_doubt_of_reads(const Json& rows, std::vector<std::string>& found) {
    const Json* worst = nullptr;
    for (const Json& row : rows) {
        double reached = row.value("reached_percent", 100.0);
        if (reached < (worst == nullptr ? kReachedMin : worst->value("reached_percent", 100.0))) worst = &row;
    }
    if (worst != nullptr)
        found.push_back(
            fmt::format("{}: counters show only {} % of the bytes read: a cache served the others",
                        labels_of(*worst).dump(), cell((*worst)["reached_percent"])));
}

void add_doubts(const Json& row, const Json& figure, std::vector<std::string>& found) {
    if (!row.contains("ratio") || !row["ratio"].is_number()) return;
    std::string subject = subject_of(row, figure);
    if (figure.value("bound_is_limit", false) && row["ratio"].get<double>() > kLimitMargin)
        found.push_back(
            fmt::format("{}: ratio {} exceeds its bound: the result and the bound were measured under "
                        "different conditions",
                        subject, cell(row["ratio"])));
    if (!row.contains("ratio_low")) {
        if (figure.value("measured", "") == "seconds")
            found.push_back(fmt::format("{}: not conclusive: a single run, in seconds", subject));
        return;
    }
    double low = row["ratio_low"].get<double>(), high = row["ratio_high"].get<double>();
    if (low <= 0 || high / low > kConclusive)
        found.push_back(fmt::format("{}: not conclusive: 95 % confidence interval {} to {}", subject,
                                    cell(low), cell(high)));
    if (has_few_turns(figure))
        found.push_back(fmt::format("{}: not conclusive: fewer than {} turns", subject, kTurnsMin));
}

}  // namespace

std::string cell(const Json& value) {
    if (value.is_null()) return "";
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_number_float()) return value.dump();
    double number = value.get<double>(), size = std::abs(number);
    return fmt::format("{:.{}f}", number, size >= 1000 ? 0 : size >= 10 ? 1 : 3);
}

std::vector<std::string> columns_of(const Json& rows) {
    std::vector<std::string> columns;
    for (const Json& row : rows)
        for (const auto& [key, value] : row.items())
            if (!value.is_structured() && std::ranges::find(columns, key) == columns.end())
                columns.push_back(key);
    return columns;
}

std::string table(const Json& rows) {
    std::vector<std::string> columns = columns_of(rows);
    std::erase(columns, "error");  // has already been reported, and is too long for a column
    std::vector<size_t> widths;
    for (const std::string& column : columns) {
        size_t width = column.size();
        for (const Json& row : rows)
            if (row.contains(column)) width = std::max(width, cell(row[column]).size());
        widths.push_back(width);
    }
    std::string text;
    for (size_t i = 0; i < columns.size(); ++i) text += fmt::format("{:>{}}  ", columns[i], widths[i]);
    text += "\n";
    for (const Json& row : rows) {
        for (size_t i = 0; i < columns.size(); ++i)
            text += fmt::format("{:>{}}  ", row.contains(columns[i]) ? cell(row[columns[i]]) : "", widths[i]);
        text += "\n";
    }
    return text;
}

std::string notes(const Json& figure) {
    std::string text = fmt::format("Measured: {}\n", figure.value("method", ""));
    if (figure.contains("bounds") && !figure["bounds"].empty())
        text += "Against its bound:\n" + table(figure["bounds"]);
    else if (figure["ratio"].is_number())
        text += fmt::format("Bound: {}, ratio: {}\n", cell(figure["bound"]), cell(figure["ratio"]));
    for (const std::string& doubt : doubts(figure)) text += fmt::format("Doubt: {}\n", doubt);
    for (const Json& card : figure.value("cards", Json::array()))
        if (!card["paper_figure"].is_null())
            text += fmt::format("{}: {}\n  the paper: {}\n", cell(card["paper_figure"]),
                                cell(card["verdict"]), cell(card["quoted"]));
    if (figure.value("interrupted", false)) text += "Interrupted: only these points were finished.\n";
    return text;
}

std::vector<std::string> doubts(const Json& figure) {
    std::vector<std::string> found;
    if (figure.contains("bounds") && !figure["bounds"].empty())
        for (const Json& row : figure["bounds"]) add_doubts(row, figure, found);
    else
        add_doubts(figure, figure, found);
    if (figure.contains("rows")) add_doubt_of_reads(figure["rows"], found);
    return found;
}

void Context::fail(const Status& status) {
    std::fprintf(stderr, "wssbench: %s\n", status.to_string().c_str());
    exit = kFailed;
}

void Context::print(const Json& answer) const {
    std::printf("%s\n", answer.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

void Context::deliver(const Json& figure) {
    if (figure.value("interrupted", false)) exit = kFailed;
    if (json) return print(figure);
    std::printf("%s (%s)\n%s%s", figure["title"].get<std::string>().c_str(),
                figure["paper"].get<std::string>().c_str(), table(figure["rows"]).c_str(),
                notes(figure).c_str());
}

}  // namespace wss::wssbench
