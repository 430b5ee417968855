// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/report.h"

#include <algorithm>
#include <ctime>

#include "kernel/uapi/wss_version.h"
#include "tools/wssbench/card.h"
#include "tools/wssbench/measure.h"
#include "tools/wssbench/plot.h"
#include "tools/wssbench/program.h"
#include "tools/wssbench/source_tree.h"
#include "tools/wssbench/text.h"

namespace wss::wssbench {

namespace {

constexpr const char* kStyle = R"(
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222; }
h1, h2 { line-height: 1.2 } h2 { margin-top: 2.2em; border-top: 1px solid #ccc; padding-top: .8em }
table { border-collapse: collapse; font-size: 13px; margin: .7em 0 }
td, th { padding: .15em .6em; border-bottom: 1px solid #e4e4e4; text-align: left; vertical-align: top }
td.n { text-align: right }
th { background: #f4f4f4; position: sticky; top: 0 } .scroll { overflow-x: auto; max-height: 32em; overflow-y: auto }
.method { color: #555 } .counted { background: #e7f3e7; padding: 0 .4em }
.seconds { background: #fdf1dc; padding: 0 .4em } .bad { color: #a00 }
code { background: #f4f4f4; padding: 0 .3em; overflow-wrap: anywhere }
.wide { overflow-x: auto } .plots svg { max-width: 100%; height: auto }
@media (max-width: 40em) { body { margin: 1em auto; font-size: 14px } }
@media print { .scroll { max-height: none; overflow: visible } table { font-size: 9px } h2 { break-after: avoid }
svg { break-inside: avoid } th { position: static } }
)";

constexpr const char* kRatios =
    "<p>Dots are turns, lines and bars their medians. Each value names its fabric: RDMA hardware, soft RDMA, "
    "a "
    "memory copy (shm, or sockets within a machine), no network; and virtual time, if instructions were "
    "counted "
    "instead of seconds. A conclusion of a paper agrees here if the 95 % confidence interval of its ratio "
    "does.</p>"
    "<p>A ratio compares a measurement of this run with the bound named beside it; bounds that are a paper's "
    "ratio or a model were not measured here. Seconds of a machine that does other work are noisy: see the "
    "spread (the largest deviation of a repeat from the median; empty for single runs), the 95 % confidence "
    "intervals of the ratios (ratio_low, ratio_high) and the doubts of each figure. Counted instructions are "
    "repeatable.</p>";

std::string escaped(const std::string& text) {
    std::string result;
    for (char c : text) {
        if (c == '&')
            result += "&amp;";
        else if (c == '<')
            result += "&lt;";
        else if (c == '>')
            result += "&gt;";
        else if (c == '"')
            result += "&quot;";
        else
            result += c;
    }
    return result;
}

std::string text_of(const Json& figure, const char* key) {
    return figure.contains(key) ? escaped(cell(figure[key])) : "";
}

std::string html_table(const Json& rows) {
    std::vector<std::string> columns = columns_of(rows);
    std::string text = R"(<div class="scroll"><table><tr>)";
    for (const std::string& column : columns) text += "<th>" + escaped(column) + "</th>";
    text += "</tr>";
    for (const Json& row : rows) {
        text += "<tr>";
        for (const std::string& column : columns) {
            bool number = row.contains(column) && row[column].is_number();
            text += (number ? "<td class=n>" : "<td>") + text_of(row, column.c_str()) + "</td>";
        }
        text += "</tr>";
    }
    return text + "</table></div>";
}

std::string html_list(const std::vector<std::string>& lines, const char* attributes) {
    if (lines.empty()) return "";
    std::string text = fmt::format("<ul{}>", attributes);
    for (const std::string& line : lines) text += "<li>" + escaped(line) + "</li>";
    return text + "</ul>\n";
}

std::string anchor_of(const Json& card) {
    std::string id = cell(card["paper_figure"]);
    std::ranges::replace(id, ' ', '-');
    return id;
}

// The values of the paper and ours, in one table.
Json values_of(const Json& card) {
    Json rows = Json::array();
    for (const Json& value : card["values"]) {
        std::string low = cell(value["low"]), high = cell(value["high"]);
        std::string series = cell(value["series"]);
        rows.push_back({{"series", series.empty() ? "paper" : "paper: " + series},
                        {cell(card["x"]), value.value("x", Json())},
                        {cell(card["y"]), low == high ? low : low + " to " + high},
                        {"of", "the paper"}});
    }
    for (const Json& line : card["measured"])
        for (const Json& point : line["points"])
            rows.push_back({{"series", line["name"]},
                            {cell(card["x"]), point["x"]},
                            {cell(card["y"]), point["y"]},
                            {"of", point["badge"]},
                            {"turns", point["turns"].size()}});
    return rows;
}

Json claims_of(const Json& card) {
    Json rows = Json::array();
    for (const Json& claim : card["claims"])
        rows.push_back({{"the paper's conclusion", claim["says"]},
                        {"where", claim["here"]},
                        {"ratio", claim["ratio"]},
                        {"95 % interval", cell(claim["low"]) + " to " + cell(claim["high"])},
                        {"the paper's ratio", claim["paper"]},
                        {"of", claim["badge"]},
                        {"here", claim["status"]},
                        {"because", claim.value("reason", "")}});
    return rows;
}

std::string section_of(const Json& card) {
    std::string id = text_of(card, "paper_figure");
    std::string text = fmt::format("<section><h2 id=\"{}\">{}{}{}</h2>\n", anchor_of(card), id,
                                   id.empty() ? "" : ": ", text_of(card, "title"));
    if (!id.empty()) text += "<p><b>" + text_of(card, "verdict") + "</b></p>\n";
    if (!cell(card["quoted"]).empty())
        text += fmt::format("<p class=method>The paper: {}. {}</p>\n", text_of(card, "quoted"),
                            text_of(card["parameters"], "paper"));
    if (card.contains("not_measured")) return text + "</section>\n";
    text += fmt::format("<p class=method>Here: <code>{}</code>; {}</p>\n", text_of(card, "command"),
                        text_of(card["parameters"], "here"));
    if (!id.empty())
        text += fmt::format("<p class=method>Why different: {}<br>{}</p>\n",
                            escaped(cell(card["why_different"][0])), escaped(cell(card["why_different"][1])));
    text += "<div class=plots>" + svg(plot_of(card)) + "</div>\n";
    if (!card["claims"].empty()) text += html_table(claims_of(card)) + "\n";
    return text + html_table(values_of(card)) + "</section>\n";
}

// Everything that a command measured, also what no card shows.
std::string section(const Json& figure) {
    std::string text = fmt::format("<h2 id=\"{0}\">wssbench {0}: {1}</h2>\n", text_of(figure, "figure"),
                                   text_of(figure, "title"));
    if (figure.contains("error"))
        return text + "<p class=bad>Not measured: " + text_of(figure, "error") + "</p>\n";
    text += fmt::format("<p>Paper: {}. <code>{}</code></p>\n", text_of(figure, "paper"),
                        text_of(figure, "command"));
    text += fmt::format("<p class=method><span class={}>{}</span> {}</p>\n",
                        figure["measured"] == "seconds" ? "seconds" : "counted", text_of(figure, "measured"),
                        text_of(figure, "method"));
    if (figure.value("interrupted", false))
        text += "<p class=bad>Interrupted: only these points were finished.</p>\n";
    if (figure.contains("ratio") && !figure["ratio"].is_null()) {
        std::string meaning = text_of(figure, "bound_means");
        text += fmt::format("<p>Bound {}{}, ratio <b>{}</b>.</p>\n", text_of(figure, "bound"),
                            meaning.empty() ? "" : " (" + meaning + ")", text_of(figure, "ratio"));
    }
    text += html_list(doubts(figure), " class=bad");
    if (figure.contains("bounds") && !figure["bounds"].empty()) text += html_table(figure["bounds"]) + "\n";
    return text + html_table(figure["rows"]) + "\n";
}

// The first line of what a command prints.
std::string version_of(const std::vector<std::string>& command) {
    auto printed = output_of(command, 20, OnInterrupt::kIgnore);
    return printed ? printed->substr(0, printed->find('\n')) : "not installed";
}

Json versions() {
    Json all = {{"WSS", WSS_VERSION}};
    all["source"] = source_version();
    all["compiler"] = __VERSION__;
    all["fio"] = version_of({"fio", "--version"});
    all["QEMU"] = version_of({"qemu-system-x86_64", "--version"});
    all["gnuplot"] = version_of({"gnuplot", "--version"});
    return Json::array({all});
}

Json largest_spread(const Json& rows) {
    Json largest;
    for (const Json& row : rows)
        if (row.contains("spread_percent") && row["spread_percent"].is_number())
            if (largest.is_null() || row["spread_percent"] > largest) largest = row["spread_percent"];
    return largest;
}

std::string contents(const Json& cards) {
    std::string text =
        "<div class=wide><table><tr><th>figure</th><th>title</th><th>the paper's conclusions "
        "here</th></tr>\n";
    for (const Json& card : cards)
        if (!card["paper_figure"].is_null())
            text += fmt::format("<tr><td><a href=\"#{}\">{}</a></td><td>{}</td><td>{}</td></tr>\n",
                                anchor_of(card), text_of(card, "paper_figure"), text_of(card, "title"),
                                text_of(card, "verdict"));
    return text + "</table></div>\n";
}

Json overview(const std::vector<Json>& figures) {
    Json rows = Json::array();
    for (const Json& figure : figures)
        rows.push_back({{"command", figure["figure"]},
                        {"measured", figure.value("measured", "not")},
                        {"bound", figure.value("bound", Json())},
                        {"the bound is", figure.value("bound_means", "")},
                        {"ratio", figure.value("ratio", Json())},
                        {"doubts", figure["rows"].empty() ? Json() : Json(doubts(figure).size())},
                        {"largest spread, %", largest_spread(figure["rows"])}});
    return rows;
}

std::string time_now() {
    char text[64];
    time_t now = time(nullptr);
    tm local{};
    localtime_r(&now, &local);
    return {text, strftime(text, sizeof text, "%Y-%m-%d %H:%M %Z", &local)};
}

}  // namespace

std::string page(const std::vector<Json>& figures, const std::vector<std::string>& remarks) {
    std::string text = fmt::format(
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        "<title>WSS: measurements</title><style>{}</style><h1>WSS: measurements</h1>\n<p>{}</p>\n",
        kStyle, time_now());
    std::vector<std::string> all = remarks;
    if (!can_plot()) all.emplace_back("gnuplot is not installed: there are no plots.");
    text += html_list(all, " class=bad");
    text += html_table(Json::array({machine()})) + html_table(versions()) + "\n" + kRatios + "\n";
    Json cards = all_cards(figures);
    text += contents(cards) + html_table(overview(figures)) + "\n";
    for (const Json& card : cards) text += section_of(card);
    for (const Json& figure : figures) text += section(figure);
    return text + "</html>\n";
}

}  // namespace wss::wssbench
