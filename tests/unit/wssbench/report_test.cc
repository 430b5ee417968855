// SPDX-License-Identifier: Apache-2.0
// The report: its data, and the figures of the driver that arrive in parts.
#include "tools/wssbench/report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/wssbench/lab.h"

namespace wss::wssbench {
namespace {

TEST(Report, contains_its_data_with_the_reason_why_a_figure_was_not_measured) {
    Json figure = {{"figure", "raw"}, {"title", "raw"}, {"paper", ""}, {"rows", Json::array()}};
    figure["error"] = "no </script> machine";
    std::string html = page({figure}, {"left out: mlockv"});
    const std::string begin = R"(<script type="application/json" id="data">)";
    size_t at = html.find(begin) + begin.size();
    Json data = Json::parse(html.substr(at, html.find("</script>", at) - at));
    EXPECT_EQ(data["figures"][0]["error"], "no </script> machine");
    EXPECT_EQ(data["remarks"], Json::array({"left out: mlockv"}));
    std::vector<Json> cards = data["cards"];
    auto card = std::ranges::find_if(cards, [](const Json& one) { return one["paper_figure"] == "D15"; });
    EXPECT_EQ((*card)["verdict"], "not measured: no </script> machine");
}

TEST(Report, fills_every_placeholder_of_its_page) {
    std::string html = page({}, {});
    for (const char* place : {"@style@", "@data@", "@script@"})
        EXPECT_EQ(html.find(place), std::string::npos);
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
