// SPDX-License-Identifier: Apache-2.0
// Figures: points in turns, medians, errors, doubts.
#include "tools/wssbench/figure.h"

#include <gtest/gtest.h>

#include "tools/wssbench/text.h"

namespace wss::wssbench {
namespace {

Context silent() {
    Context context;
    context.settings.no_progress = true;
    context.settings.repeats = 3;
    return context;
}

TEST(Figure, measures_points_in_turns_and_reports_the_median) {
    std::vector<int> order;
    std::vector<double> values = {10, 1, 30, 2, 20, 3};
    Figure figure{.name = "test"};
    for (int n : {1, 2})
        figure.points.push_back({{{"n", n}}, [&, n](const Window&) -> Result<Sample> {
                                     order.push_back(n);
                                     return Sample{.rate = values[order.size() - 1]};
                                 }});
    Context context = silent();
    Json result = run(context, figure);
    EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2, 1, 2}));
    ASSERT_EQ(result["rows"].size(), 2u);
    EXPECT_EQ(result["rows"][0]["rate"], 20);
    EXPECT_EQ(result["rows"][1]["rate"], 2);
    EXPECT_EQ(result["rows"][0]["spread_percent"], 50);
    EXPECT_EQ(result["rows"][0]["turns"]["rate"], Json({10, 30, 20}));
    EXPECT_EQ(context.exit, kDone);
}

TEST(Figure, keeps_other_points_if_one_fails) {
    Figure figure{.name = "test"};
    figure.points.push_back({{{"n", 1}}, [](const Window&) -> Result<Sample> {
                                 return Status(Code::kUnavailable, "out of luck");
                             }});
    figure.points.push_back({{{"n", 2}}, [](const Window&) -> Result<Sample> { return Sample{.rate = 5}; }});
    Context context = silent();
    Json rows = run(context, figure)["rows"];
    EXPECT_NE(rows[0]["error"].get<std::string>().find("out of luck"), std::string::npos);
    EXPECT_FALSE(rows[0].contains("rate"));
    EXPECT_EQ(rows[1]["rate"], 5);
    EXPECT_EQ(rows[1]["repeats"], 3);
    EXPECT_EQ(context.exit, kFailed);
}

TEST(Figure, has_no_spread_after_a_single_turn) {
    EXPECT_TRUE(summary({{.rate = 5}})["spread_percent"].is_null());
}

TEST(Figure, has_the_percentiles_that_all_turns_have_and_their_medians) {
    auto sample = [](std::vector<double> percents, std::vector<double> us) {
        Sample one{.rate = 1};
        one.more["latency"] = {{"percent", percents}, {"us", us}};
        return one;
    };
    Json latency =
        summary({sample({50, 99}, {3, 30}), sample({50}, {1}), sample({50, 99}, {2, 20})})["latency"];
    EXPECT_EQ(latency["percent"], Json({50}));
    EXPECT_EQ(latency["us"], Json({2}));
    EXPECT_EQ(latency["turns"].size(), 3u);
}

TEST(Figure, names_the_system_of_the_machine_without_quotes) {
    EXPECT_EQ(machine()["system"].get<std::string>().find('"'), std::string::npos);
}

// ---- doubts

std::vector<std::string> doubts_of(const std::vector<double>& ratios, bool limit = false) {
    Json bound = {{"fabric", "tcp"}};
    bound.update(ratio_columns(ratios));
    return doubts({{"figure", "f"},
                   {"series", {"fabric"}},
                   {"rows", Json::array({{{"repeats", ratios.size()}}})},
                   {"bounds", Json::array({bound})},
                   {"bound_is_limit", limit}});
}

std::vector<double> times(double factor, std::vector<double> values) {
    for (double& value : values) value *= factor;
    return values;
}

const std::vector<double> kSteady = {0.9, 0.91, 0.92, 0.9, 0.91, 0.9, 0.92};

TEST(Doubts, accept_a_steady_ratio_of_enough_turns) {
    EXPECT_TRUE(doubts_of(kSteady).empty());
}

TEST(Doubts, name_the_row_whose_ratio_varies) {
    auto found = doubts_of({0.5, 0.9, 1.8, 0.4, 2.0});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(found[0].starts_with("tcp: not conclusive: 95 % confidence interval")) << found[0];
}

TEST(Doubts, report_fewer_than_five_turns) {
    auto found = doubts_of({0.9, 0.91, 0.9});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].find("fewer than 5 turns"), std::string::npos);
}

TEST(Doubts, report_a_single_run_unless_it_counts_instructions) {
    Json figure = {{"figure", "f"}, {"rows", Json::array()}, {"ratio", 0.9}, {"measured", "seconds"}};
    EXPECT_EQ(doubts(figure), (std::vector<std::string>{"f: not conclusive: a single run, in seconds"}));
    figure["measured"] = "counted instructions";
    EXPECT_TRUE(doubts(figure).empty());
}

TEST(Doubts, report_a_ratio_above_a_bound_only_if_nothing_can_exceed_it) {
    EXPECT_TRUE(doubts_of(times(6, kSteady)).empty()) << "a paper's ratio may be exceeded";
    auto found = doubts_of(times(6, kSteady), true);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].find("exceeds its bound"), std::string::npos);
}

TEST(Doubts, name_the_row_whose_reads_did_not_reach_storage) {
    Json rows = Json::array();
    for (double reached : {100.2, 99.1, 40.0, 60.0})
        rows.push_back({{"threads", reached}, {"rate", 1}, {"reached_percent", reached}});
    auto found = doubts({{"figure", "f"}, {"rows", rows}});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(found[0].starts_with(R"({"threads":40.0}: counters show only 40.0 %)")) << found[0];
    rows.erase(rows.begin() + 2, rows.end());
    EXPECT_TRUE(doubts({{"figure", "f"}, {"rows", rows}}).empty());
}

TEST(Doubts, name_a_label_once) {
    Json figure = {{"figure", "f"}, {"series", {"system"}}, {"rows", Json::array({{{"repeats", 1}}})}};
    figure["bounds"] = Json::array({{{"system", "ours"}, {"ratio", 1}, {"ratio_low", 1}, {"ratio_high", 1}}});
    EXPECT_EQ(doubts(figure), (std::vector<std::string>{"ours: not conclusive: fewer than 5 turns"}));
}

TEST(Doubts, appear_below_the_table_of_a_figure) {
    Json figure = {{"figure", "f"}, {"rows", Json::array({{{"repeats", 9}}})}, {"bound", 1}, {"ratio", 2.0}};
    figure["bound_is_limit"] = true;
    EXPECT_NE(notes(figure).find("Doubt: f: ratio 2.000 exceeds its bound"), std::string::npos);
}

}  // namespace
}  // namespace wss::wssbench
