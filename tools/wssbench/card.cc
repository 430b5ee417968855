// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/card.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "lib/base/summary.h"
#include "tools/wssbench/figure.h"
#include "tools/wssbench/text.h"

namespace wss::wssbench {

namespace {

constexpr size_t kTurnsMin = 5;     // the same as for doubts (text.cc)
constexpr double kAbout = 1.25;     // "about" means within a quarter
constexpr double kShort = 0.95;     // "short of" means below this
constexpr double kExceeded = 1.02;  // above this, a limit is exceeded

const char* const kAgrees = "agrees";
const char* const kDiffers = "differs";
const char* const kOpen = "not conclusive";

struct Point {
    Json labels;
    std::string x;              // its category, or its number as text
    std::vector<double> turns;  // the values of y in each turn
    const Json* row;
};

std::vector<std::string> strings(const Json& list) {
    if (list.is_string()) return {list.get<std::string>()};
    return list.is_array() ? list.get<std::vector<std::string>>() : std::vector<std::string>();
}

// ---- Selection of rows and points by labels

bool is_end(const Json& wanted) {
    return wanted == "@first" || wanted == "@last";
}

bool fits(const Json& labels, const Json& selector) {
    return std::ranges::all_of(selector.items(), [&](const auto& one) {
        const Json& wanted = one.value();
        if (is_end(wanted)) return labels.contains(one.key());
        if (!labels.contains(one.key())) return false;
        const Json& has = labels[one.key()];
        if (wanted.is_string() && wanted.template get<std::string>().starts_with('!'))
            return has != wanted.template get<std::string>().substr(1);
        return has == wanted;
    });
}

// The selector with numbers in place of @first and @last: the smallest and the largest among those that fit.
Json without_ends(Json selector, const std::vector<Json>& all) {
    const Json given = selector;
    for (auto& [key, wanted] : selector.items()) {
        if (!is_end(wanted)) continue;
        Json end;
        for (const Json& labels : all)
            if (fits(labels, given) &&
                (end.is_null() || (given[key] == "@first" ? labels[key] < end : labels[key] > end)))
                end = labels[key];
        wanted = end;
    }
    return selector;
}

// ---- The points of a card

std::vector<double> values_of(const Json& row, const std::string& column) {
    std::string source = column == "us" || column == "mb" ? "rate" : column;
    std::vector<double> values = turns_of(row, source);
    if (values.empty() && row.contains(source) && row[source].is_number())
        values = {row[source].get<double>()};
    for (double& value : values) {
        if (column == "us") value = value > 0 ? 1e6 / value : 0;
        if (column == "mb") value *= row.value("bytes", 0.0) / 1e6;
    }
    return values;
}

std::string category(const Json& labels, const std::vector<std::string>& x) {
    std::vector<std::string> parts;
    for (const std::string& key : x)
        if (labels.contains(key) && !cell(labels[key]).empty()) parts.push_back(cell(labels[key]));
    return fmt::format("{}", fmt::join(parts, " "));
}

std::vector<Json> labels_of_all(const Json& rows) {
    std::vector<Json> all;
    for (const Json& row : rows)
        if (row.contains("rate")) all.push_back(labels_of(row));
    return all;
}

std::vector<Point> points_of(const Json& card, const Json& rows) {
    std::vector<std::string> x = strings(card["x"]), columns = strings(card["y"]);
    Json where = without_ends(card.value("where", Json::object()), labels_of_all(rows));
    std::vector<Point> points;
    for (const Json& row : rows) {
        Json labels = labels_of(row);
        bool has_x = std::ranges::all_of(x, [&](const auto& key) { return labels.contains(key); });
        if (!row.contains("rate") || !has_x || !fits(labels, where)) continue;
        for (const std::string& key : strings(card.value("ignore", Json()))) labels.erase(key);
        for (const std::string& column : columns) {
            if (columns.size() > 1) labels["quantity"] = column;
            std::vector<double> values = values_of(row, column);
            if (!values.empty()) points.push_back({labels, category(labels, x), std::move(values), &row});
        }
    }
    return points;
}

// One point for all settings that differ only in the labels `over`.
std::vector<Point> best_points(std::vector<Point> points, const std::vector<std::string>& over) {
    std::vector<Point> best;
    std::vector<std::vector<std::vector<double>>> settings;
    for (Point& point : points) {
        for (const std::string& key : over) point.labels.erase(key);
        auto found = std::ranges::find(best, point.labels, &Point::labels);
        if (found == best.end()) {
            settings.emplace_back();
            found = best.insert(best.end(), point);
        }
        settings[static_cast<size_t>(found - best.begin())].push_back(std::move(point.turns));
    }
    for (size_t i = 0; i < best.size(); ++i) best[i].turns = best_in_turns(settings[i]);
    return best;
}

const Point* point_with(const std::vector<Point>& points, const Json& labels) {
    auto found = std::ranges::find(points, labels, &Point::labels);
    return found == points.end() ? nullptr : &*found;
}

// The labels `of`, with the labels `to` replacing those of the same name.
Json replaced(Json of, const Json& to) {
    of.update(to);
    return of;
}

std::vector<Point> relative_to(const Json& base, const std::vector<Point>& points) {
    std::vector<Point> relative;
    for (const Point& point : points)
        if (const Point* divisor = point_with(points, replaced(point.labels, base))) {
            relative.push_back(point);
            relative.back().turns = ratios_in_turns(point.turns, {divisor->turns});
        }
    std::erase_if(relative, [](const Point& point) { return point.turns.empty(); });
    return relative;
}

// The labels that all points share, or those that differ, in both cases without the labels of x.
Json labels_by(bool shared, const std::vector<Point>& points, const std::vector<std::string>& x) {
    Json found = Json::object();
    for (const Point& point : points)
        for (const auto& [key, value] : point.labels.items()) {
            bool same = std::ranges::all_of(points, [&key = key, &value = value](const Point& other) {
                return other.labels.contains(key) && other.labels[key] == value;
            });
            if (same == shared && std::ranges::find(x, key) == x.end()) found[key] = value;
        }
    return found;
}

// Returns text such as "operation read, bytes 512".
std::string text_of_labels(const Json& labels) {
    std::vector<std::string> parts;
    for (const auto& [key, value] : labels.items())
        if (!cell(value).empty()) parts.push_back(key + " " + cell(value));
    return fmt::format("{}", fmt::join(parts, ", "));
}

std::string series_of(const Point& point, const Json& differing) {
    std::vector<std::string> parts;
    for (const auto& [key, unused] : differing.items()) {
        if (!point.labels.contains(key) || cell(point.labels[key]).empty()) continue;
        std::string value = cell(point.labels[key]);
        bool clear = point.labels[key].is_string() && value != "on" && value != "off";
        parts.push_back(clear ? value : key + " " + value);
    }
    return parts.empty() ? "ours" : fmt::format("{}", fmt::join(parts, " "));
}

// Those labels of a point that differ between points.
Json labels_in(const Point& point, const Json& differing) {
    Json labels = Json::object();
    for (const auto& [key, unused] : differing.items())
        if (point.labels.contains(key)) labels[key] = point.labels[key];
    return labels;
}

// The turns of the point's row in other units, among which the reader chooses. A point that is the best of
// several rows has only MB/s, calculated from its operations per second.
Json other_units(const Json& card, const Point& point) {
    static const std::vector<std::string> kOperations = {"rate", "us", "mb", "mb_per_s"};
    for (const std::string& column : strings(card["y"]))
        if (std::ranges::find(kOperations, column) == kOperations.end()) return nullptr;
    auto turns = [&](const char* column) {
        Json values = Json::array();
        for (double turn : values_of(*point.row, column)) values.push_back(rounded(turn));
        return values;
    };
    Json units = Json::object();
    double bytes = point.row->value("bytes", 0.0);
    if (card.contains("best_over")) {
        if (bytes == 0) return nullptr;
        for (double turn : point.turns) units["MB/s"].push_back(rounded(turn * bytes / 1e6));
        return units;
    }
    units["operations/s"] = turns("rate");
    if (bytes > 0) units["MB/s"] = turns("mb");
    if (point.row->contains("latency_us")) units["µs, median"] = turns("latency_us");
    return units;
}

Json point_of(const Json& card, const Point& point, const std::vector<std::string>& x) {
    bool number = x.size() == 1 && point.labels[x[0]].is_number();
    Json turns = Json::array();
    for (double turn : point.turns) turns.push_back(rounded(turn));
    Json result = {{"x", number ? point.labels[x[0]] : Json(point.x)},
                   {"y", rounded(summarise(point.turns).median)},
                   {"badge", point.row->value("badge", "")},
                   {"turns", std::move(turns)}};
    if (Json units = other_units(card, point); !units.is_null()) result["in"] = std::move(units);
    if (!card.contains("best_over") && point.row->contains("latency"))
        result["latency"] = (*point.row)["latency"];
    return result;
}

Json lines_of(const Json& card, const std::vector<Point>& points, const std::vector<std::string>& x) {
    Json lines = Json::array(), differing = labels_by(false, points, x);
    for (const Point& point : points) {
        std::string name = series_of(point, differing);
        auto line = std::ranges::find_if(lines, [&](const Json& one) { return one["name"] == name; });
        if (line == lines.end())
            line = lines.insert(
                lines.end(),
                Json({{"name", name}, {"labels", labels_in(point, differing)}, {"points", Json::array()}}));
        (*line)["points"].push_back(point_of(card, point, x));
    }
    return lines;
}

// ---- Stacked bars

double value_at(const Json& line, const std::string& place) {
    for (const Json& point : line["points"])
        if (point["x"] == place) return point["y"].get<double>();
    return 0;
}

// A part is the sum of the values at its places. A value is subtracted if a '-' precedes the place.
Json parts_of(const Json& parts, const Json& line) {
    Json all = Json::array();
    for (const Json& part : parts) {
        double sum = 0;
        for (const std::string place : part[1])
            sum += place.starts_with('-') ? -value_at(line, place.substr(1)) : value_at(line, place);
        if (sum > 0) all.push_back({{"name", part[0]}, {"y", rounded(sum)}});
    }
    return all;
}

// Adds a bar for each point at the place of the stack. A point gets no bar if one of its parts is missing,
// zero or negative, because the total would be wrong.
void add_bars_at(const Json& stack, const std::vector<Point>& points, const std::vector<std::string>& x,
                 Json& bars) {
    Json differing = labels_by(false, points, x);
    for (const Point& point : points) {
        if (point.labels[x[0]] != stack["at"]) continue;
        Json parts = Json::array();
        for (const Json& column : stack["columns"])
            if (double value = point.row->value(column[1].get<std::string>(), 0.0); value > 0)
                parts.push_back({{"name", column[0]}, {"y", rounded(value)}});
        if (parts.size() == stack["columns"].size())
            bars.push_back({{"name", "here, " + series_of(point, differing)}, {"parts", std::move(parts)}});
    }
}

// The bars of the paper, and our bars.
Json stack_of(const Json& stack, const std::vector<Point>& points, const std::vector<std::string>& x,
              const Json& lines) {
    Json bars = Json::array();
    const Json& names = stack.contains("parts") ? stack["parts"] : stack["columns"];
    for (const Json& quoted : stack["paper"]) {
        Json parts = Json::array();
        for (size_t i = 0; i < names.size(); ++i)
            if (quoted[1][i] != 0) parts.push_back({{"name", names[i][0]}, {"y", quoted[1][i]}});
        bars.push_back({{"name", "the paper, " + quoted[0].get<std::string>()}, {"parts", std::move(parts)}});
    }
    if (stack.contains("columns")) add_bars_at(stack, points, x, bars);
    for (const Json& line : stack.contains("parts") ? lines : Json::array())
        bars.push_back({{"name", "here, " + line["name"].get<std::string>()},
                        {"parts", parts_of(stack["parts"], line)}});
    return {{"unit", stack["unit"]}, {"bars", std::move(bars)}};
}

// ---- Claims

const char* status_of(const Json& claim, double low, double high) {
    double than = claim.value("than", 1.0);
    std::string relation = claim["relation"];
    bool agrees = false, differs = false;
    if (relation == "above") {
        agrees = low > than;
        differs = high < than;
    } else if (relation == "below") {
        agrees = high < than;
        differs = low > than;
    } else if (relation == "about") {
        agrees = low >= 1 / kAbout && high <= kAbout;
        differs = low > kAbout || high < 1 / kAbout;
    } else {  // "short of": nothing can exceed the limit, so a value above it shows that the conditions were
              // unequal
        agrees = high < kShort;
        differs = low >= kShort && high <= kExceeded;
    }
    return agrees ? kAgrees : differs ? kDiffers : kOpen;
}

// Why a claim is open, or an empty string.
std::string reason_of(const Json& claim, size_t turns, bool counted, double low, double high) {
    if (!counted && turns < kTurnsMin) return fmt::format("fewer than {} turns", kTurnsMin);
    if (status_of(claim, low, high) != kOpen) return "";
    if (claim["relation"] == "short of" && low > kExceeded) return "exceeds a limit that nothing can exceed";
    return "the interval includes both";
}

Json claim_about(const Json& claim, const Point& of, const std::string& where,
                 const std::vector<double>& ratios, bool counted) {
    Interval interval = interval_of_median(ratios);
    Json result = {{"says", claim["says"]},
                   {"here", where},
                   {"ratio", rounded(summarise(ratios).median)},
                   {"low", rounded(interval.low)},
                   {"high", rounded(interval.high)},
                   {"paper", claim.value("value", "")},
                   {"badge", of.row->value("badge", "")}};
    std::string reason = reason_of(claim, ratios.size(), counted, interval.low, interval.high);
    result["status"] = reason.empty() ? status_of(claim, interval.low, interval.high) : kOpen;
    if (!reason.empty()) result["reason"] = reason;
    return result;
}

void add_claim(const Json& claim, const std::vector<Point>& points, bool counted, Json& results) {
    std::vector<Json> all;
    for (const Point& point : points) all.push_back(point.labels);
    Json of = without_ends(claim["of"], all), to = without_ends(claim.value("to", Json::object()), all);
    Json differing = labels_by(false, points, {});
    for (const auto& [key, value] : of.items())
        if (!value.is_string() || !value.get<std::string>().starts_with('!')) differing.erase(key);
    for (const Point& point : points) {
        if (!fits(point.labels, of)) continue;
        std::vector<double> ratios;
        if (claim.contains("column")) {
            ratios = values_of(*point.row, claim["column"]);
        } else {
            const Point* other = point_with(points, replaced(point.labels, to));
            if (other == nullptr || other == &point) continue;
            ratios = ratios_in_turns(point.turns, {other->turns});
        }
        std::string where = differing.empty() ? "" : series_of(point, differing);
        if (!ratios.empty()) results.push_back(claim_about(claim, point, where, ratios, counted));
    }
}

size_t count_of(const Json& claims, const char* status) {
    return static_cast<size_t>(
        std::ranges::count_if(claims, [&](const Json& claim) { return claim["status"] == status; }));
}

// In one line: the verdict, and the conclusion or reason that decided it.
std::string verdict_of(const Json& claims) {
    size_t all = claims.size(), agree = count_of(claims, kAgrees), differ = count_of(claims, kDiffers);
    if (all == 0) return "no conclusion of the paper applies to these values";
    const char* deciding = differ > 0 ? kDiffers : agree == all ? kAgrees : kOpen;
    const Json& first =
        *std::ranges::find_if(claims, [&](const Json& claim) { return claim["status"] == deciding; });
    std::string says = first["says"], reason = first.value("reason", "");
    if (agree == all) return fmt::format("agrees: {} ({} of {} comparisons)", says, agree, all);
    if (differ == 0 && agree == 0) return fmt::format("not conclusive: {}: {}", says, reason);
    std::string word = differ == all ? "differs" : "mixed";
    return fmt::format("{}: {} of {} comparisons agree, {} differ; {}: {}", word, agree, all, differ,
                       differ > 0 ? "does not hold here" : "not conclusive", says);
}

// ---- Cards

Json quoted_values(const Json& card) {
    Json values = Json::array();
    for (const Json& value : card.value("values", Json::array())) {
        Json one = {{"series", value[0]}, {"low", value[2]}, {"high", value[3]}};
        if (!value[1].is_null()) one["x"] = value[1];
        values.push_back(std::move(one));
    }
    return values;
}

// What the fabrics of the points mean for a comparison.
std::string meaning_of_badges(const std::vector<Point>& points) {
    std::set<std::string> texts;
    for (const Point& point : points) {
        std::string badge = point.row->value("badge", "");
        if (badge.starts_with("memory copy"))
            texts.insert(
                "Client and server share this machine, and no adapter takes part: memory is copied.");
        if (badge.starts_with("soft RDMA")) texts.insert("Soft RDMA: processors do the work of the adapter.");
        if (badge.ends_with("virtual time"))
            texts.insert("Virtual time counts instructions: it shows costs of code, not of hardware.");
        if (badge == "no network") texts.insert("Another machine and other storage.");
    }
    return texts.empty() ? "Another machine." : fmt::format("{}", fmt::join(texts, " "));
}

Json head_of_card(const Json& card) {
    return {{"paper_figure", card.value("id", Json())},
            {"figure", card.value("figure", Json())},
            {"title", card["title"]},
            {"x", fmt::format("{}", fmt::join(strings(card.value("x", Json())), ", "))},
            {"y", card.value("unit", "")},
            {"draw", card.value("draw", "lines")},
            {"relative", card.contains("base")},
            {"parameters", {{"paper", card.value("paper", "")}}},
            {"quoted", card.value("quoted", "")},
            {"values", quoted_values(card)}};
}

// The last line of an error, which contains the cause: the lines before it are from a log.
std::string last_line(const std::string& error) {
    size_t end = error.find_last_not_of(" |\n");
    if (end == std::string::npos) return error;
    size_t begin = error.find_last_of('\n', end);
    begin = begin == std::string::npos ? 0 : error.find_first_not_of(" |\n", begin);
    return error.substr(begin, end + 1 - begin);
}

Json not_measured(const Json& card, const std::string& why) {
    Json result = head_of_card(card);
    result["not_measured"] = why;
    result["verdict"] = "not measured: " + why;
    return result;
}

Json card_of(const Json& card, const Json& figure) {
    std::vector<std::string> x = strings(card["x"]);
    std::vector<Point> points = points_of(card, figure["rows"]);
    if (card.contains("best_over")) points = best_points(std::move(points), strings(card["best_over"]));
    if (card.contains("base")) points = relative_to(card["base"], points);
    std::set<std::string> places;
    for (const Point& point : points) places.insert(point.x);
    if (places.size() < 2 && card.contains("missing")) return not_measured(card, card["missing"]);
    if (places.size() < 2)
        return not_measured(
            card, fmt::format("the run has {} of {}", places.empty() ? "no value" : "a single value",
                              fmt::join(x, ", ")));
    Json result = head_of_card(card), claims = Json::array();
    bool counted = figure.value("measured", "") == "counted instructions";
    for (const Json& claim : card.value("claims", Json::array())) add_claim(claim, points, counted, claims);
    result["parameters"]["here"] =
        fmt::format("{}; {}", text_of_labels(labels_by(true, points, x)), figure.value("method", ""));
    result["command"] = figure.value("command", "");
    result["machine"] = figure.value("machine", Json());
    result["source"] = figure.value("source", "");
    result["measured"] = lines_of(card, points, x);
    if (card.contains("stack")) result["stack"] = stack_of(card["stack"], points, x, result["measured"]);
    result["verdict"] = card.contains("id") ? verdict_of(claims) : "";
    result["claims"] = std::move(claims);
    result["why_different"] = Json::array({card.value("why", ""), meaning_of_badges(points)});
    return result;
}

std::string rdma_badge() {
    // Only drivers of adapters report a type. If in doubt, it is soft RDMA.
    std::error_code none;
    bool any = false, all = true;
    for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", none)) {
        any = true;
        all = all && std::filesystem::exists(device.path() / "hca_type", none);
    }
    return any && all ? "RDMA hardware" : "soft RDMA";
}

}  // namespace

std::string badge_of(const std::string& fabric, bool elsewhere, bool counted) {
    std::string badge = "memory copy";
    if (fabric == "local") badge = "no network";
    if (fabric == "rdma") badge = counted ? "soft RDMA" : rdma_badge();
    if (fabric != "local" && fabric != "rdma" && fabric != "shm" && elsewhere) badge = "TCP network";
    return badge + (counted ? ", virtual time" : "");
}

Json cards_of(const Json& figure) {
    Json cards = Json::array();
    for (const Json& card : card_descriptions()) {
        if (card.value("figure", "") != figure["figure"]) continue;
        Json made = card_of(card, figure);
        if (card.contains("id") || !made.contains("not_measured")) cards.push_back(std::move(made));
    }
    return cards;
}

Json all_cards(const std::vector<Json>& figures) {
    Json cards = Json::array();
    for (const Json& card : card_descriptions()) {
        Json made = not_measured(card, card.value("not_measured", "not part of this run"));
        for (const Json& figure : figures) {
            if (figure["figure"] != card.value("figure", "") || !made.contains("not_measured")) continue;
            made = figure.contains("error") ? not_measured(card, last_line(figure["error"]))
                                            : card_of(card, figure);
        }
        if (card.contains("id") || !made.contains("not_measured")) cards.push_back(std::move(made));
    }
    return cards;
}

}  // namespace wss::wssbench
