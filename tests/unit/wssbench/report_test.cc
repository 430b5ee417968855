// SPDX-License-Identifier: Apache-2.0
// The report: plots, sections, and the figures of the driver that arrive in parts.
#include "tools/wssbench/report.h"

#include <gtest/gtest.h>

#include "tools/wssbench/lab.h"
#include "tools/wssbench/plot.h"

namespace wss::wssbench {
namespace {

Json card_of(Json values, const char* x = "n") {
    Json line = {{"name", "shm"}, {"points", Json::array()}};
    for (int place : {1, 8})
        line["points"].push_back(
            {{"x", x == std::string("n") ? Json(place) : Json(x + std::to_string(place))},
             {"y", place * 10.0},
             {"badge", "memory copy"},
             {"turns", {place * 9.0, place * 10.0}}});
    return {{"title", "T"},
            {"x", x},
            {"y", "IOPS"},
            {"values", std::move(values)},
            {"measured", Json::array({line})}};
}

using Points = std::vector<std::pair<double, double>>;

TEST(Plot, has_a_line_of_medians_and_a_dot_for_each_turn) {
    Plot plot = plot_of(card_of(Json::array()));
    ASSERT_EQ(plot.lines.size(), 1u);
    EXPECT_EQ(plot.lines[0].points, (Points{{1, 10}, {8, 80}}));
    EXPECT_EQ(plot.lines[0].turns, (Points{{1, 9}, {1, 10}, {8, 72}, {8, 80}}));
    EXPECT_TRUE(plot.categories.empty());
}

TEST(Plot, shows_a_papers_value_at_its_point_and_a_range_without_one_across) {
    Json at = {{"series", "a"}, {"low", 7}, {"high", 7}, {"x", 2}},
         across = {{"series", "b"}, {"low", 5}, {"high", 6}};
    Plot plot = plot_of(card_of(Json::array({at, across})));
    ASSERT_EQ(plot.lines.size(), 3u);
    EXPECT_EQ(plot.lines[1].name, "paper: a");
    EXPECT_EQ(plot.lines[1].points, (Points{{2, 7}}));
    EXPECT_EQ(plot.lines[2].points, (Points{{1, 5}, {8, 5}, {1, 6}, {8, 6}}));
}

TEST(Plot, joins_the_values_of_one_series_of_the_paper) {
    Json one = {{"series", ""}, {"low", 7}, {"high", 7}, {"x", 1}},
         two = {{"series", ""}, {"low", 8}, {"high", 8}, {"x", 2}};
    Plot plot = plot_of(card_of(Json::array({one, two})));
    ASSERT_EQ(plot.lines.size(), 2u);
    EXPECT_EQ(plot.lines[1].name, "paper");
    EXPECT_EQ(plot.lines[1].points, (Points{{1, 7}, {2, 8}}));
    EXPECT_FALSE(plot.lines[1].across);
}

TEST(Plot, has_categories_for_names_also_for_those_that_only_the_paper_has) {
    Json of_paper = {{"series", "a"}, {"low", 7}, {"high", 7}, {"x", "IPoIB"}};
    Plot plot = plot_of(card_of(Json::array({of_paper}), "system"));
    EXPECT_EQ(plot.categories, (std::vector<std::string>{"system1", "system8", "IPoIB"}));
    EXPECT_EQ(plot.lines[1].points, (Points{{2, 7}}));
}

TEST(Report, names_a_figure_that_was_not_measured_and_escapes_its_error) {
    Json figure = {{"figure", "raw"}, {"title", "raw"}, {"paper", ""}, {"rows", Json::array()}};
    figure["error"] = "no <machine>";
    std::string html = page({figure}, {"left out: mlockv"});
    EXPECT_NE(html.find("Not measured: no &lt;machine&gt;"), std::string::npos);
    EXPECT_NE(html.find("<li>left out: mlockv</li>"), std::string::npos);
    EXPECT_NE(html.find("<b>not measured: no &lt;machine&gt;</b>"), std::string::npos) << "the card, too";
}

// ---- parts of the driver's figures

Json part_of(const char* figure, const char* network, double rate, const char* kernel = "6.1.0") {
    Json rows = Json::array({{{"operation", "read"}, {"bytes", 4096}, {"rate", rate}}});
    return {{"figure", figure},
            {"kernel", kernel},
            {"network", network},
            {"measured", {{"rows", rows}, {"bounds", Json::array()}, {"bound", 1.7}, {"ratio", rate}}}};
}

TEST(LabParts, join_kernels_and_networks_and_keep_the_ratio_of_the_first) {
    LabParts parts(3);
    for (const Json& part : {part_of("mlockv", "rxe", 1), part_of("raw", "rxe", 2),
                             part_of("mlockv", "siw", 3), part_of("mlockv", "rxe", 2, "6.12")})
        parts.take(part);
    Json figure = parts.joined("mlockv");
    ASSERT_EQ(figure["rows"].size(), 3u);
    EXPECT_EQ(figure["rows"][2]["kernel"], "6.12");
    EXPECT_EQ(figure["rows"][2]["rate"], 2);
    EXPECT_EQ(figure["ratio"], 1) << "of the first part, not the best";
    EXPECT_FALSE(figure.contains("interrupted"));
}

TEST(LabParts, mark_a_figure_that_lacks_a_part) {
    LabParts parts(3);
    parts.take(part_of("raw", "rxe", 2));
    EXPECT_EQ(parts.joined("raw")["interrupted"], true);
    EXPECT_TRUE(parts.joined("block").is_null());
}

TEST(LabParts, report_the_error_of_a_part) {
    LabParts parts(2);
    parts.take(part_of("mlockv", "rxe", 1));
    parts.take({{"figure", "mlockv"},
                {"kernel", "6.1.0"},
                {"network", "siw"},
                {"measured", {{"error", "no switch"}}}});
    EXPECT_EQ(parts.joined("mlockv")["error"], "no switch");
}

}  // namespace
}  // namespace wss::wssbench
