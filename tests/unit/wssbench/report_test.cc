// SPDX-License-Identifier: Apache-2.0
// The report: plots, sections, and the figures of the driver that arrive in parts.
#include "tools/wssbench/report.h"

#include <gtest/gtest.h>

#include "tools/wssbench/lab.h"
#include "tools/wssbench/plot.h"

namespace wss::wssbench {
namespace {

TEST(Plot, has_a_line_for_each_system_and_a_plot_for_each_size) {
    Json rows = Json::array();
    for (const char* system : {"a", "b"})
        for (int bytes : {512, 4096})
            for (int n : {1, 2})
                rows.push_back({{"system", system}, {"bytes", bytes}, {"n", n}, {"rate", n * 10}});
    auto plots = plots_of({{"rows", rows}, {"series", {"system", "none", "bytes"}}, {"x", "n"}});
    ASSERT_EQ(plots.size(), 2u);
    EXPECT_EQ(plots[0].name, "bytes 512");
    EXPECT_EQ(plots[1].name, "bytes 4096");
    ASSERT_EQ(plots[0].lines.size(), 2u);
    EXPECT_EQ(plots[0].lines[1].name, "b");
    EXPECT_EQ(plots[0].lines[1].points, (std::vector<std::pair<double, double>>{{1, 10}, {2, 20}}));
}

TEST(Plot, shows_a_papers_value_only_next_to_comparable_rows) {
    Json rows = Json::array();
    for (int bytes : {512, 4096})
        for (const char* operation : {"read", "write"})
            rows.push_back(
                {{"system", "a"}, {"bytes", bytes}, {"operation", operation}, {"n", 1}, {"rate", 10}});
    Json value = {{"text", "…"}, {"x", 1}, {"value", 7}, {"series", "static"}};
    value["where"] = {{"bytes", 512}, {"operation", "read"}};
    Json figure = {{"rows", rows}, {"x", "n"}, {"paper_values", Json::array({value})}};
    figure["series"] = {"system", "none", "bytes", "operation"};
    auto lines = papers_lines(figure, "bytes 512, operation read");
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].name, "paper static");
    EXPECT_EQ(lines[0].points, (std::vector<std::pair<double, double>>{{1, 7}}));
    EXPECT_TRUE(papers_lines(figure, "bytes 512, operation write").empty());
    EXPECT_TRUE(papers_lines(figure, "bytes 4096, operation read").empty());
}

TEST(Report, names_a_figure_that_was_not_measured_and_escapes_its_error) {
    Json figure = {{"figure", "raw"}, {"title", "raw"}, {"paper", ""}, {"rows", Json::array()}};
    figure["error"] = "no <machine>";
    std::string html = page({figure}, {"left out: mlockv"});
    EXPECT_NE(html.find("Not measured: no &lt;machine&gt;"), std::string::npos);
    EXPECT_NE(html.find("<li>left out: mlockv</li>"), std::string::npos);
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
