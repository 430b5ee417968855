// SPDX-License-Identifier: Apache-2.0
// Cards: which rows they show, when a conclusion of a paper agrees, and when nothing was measured.
#include "tools/wssbench/card.h"

#include <gtest/gtest.h>

#include <set>

#include "tools/wssbench/measure.h"

namespace wss::wssbench {
namespace {

Json row_with(Json labels, const std::vector<double>& rates) {
    std::vector<Sample> samples;
    for (double rate : rates) samples.push_back({.rate = rate});
    labels.update(summary(samples));
    labels["badge"] = "memory copy";
    return labels;
}

Json figure_of(const char* name, Json rows, const char* measured = "seconds") {
    return {{"figure", name},
            {"command", std::string("wssbench ") + name},
            {"measured", measured},
            {"method", "as in this test"},
            {"rows", std::move(rows)}};
}

Json card_with(const char* id, const Json& cards) {
    for (const Json& card : cards)
        if (card["paper_figure"] == id) return card;
    ADD_FAILURE() << "no card " << id;
    return {};
}

std::vector<double> around(double value, size_t turns) {
    std::vector<double> values;
    for (size_t i = 0; i < turns; ++i) values.push_back(value * (1 + 0.01 * static_cast<double>(i % 3)));
    return values;
}

// Local reads with one and with 64 threads.
Json local_rows(double one, double many, size_t turns) {
    Json rows = Json::array();
    for (auto [threads, rate] : {std::pair{1, one}, std::pair{64, many}})
        rows.push_back(
            row_with({{"method", "static"}, {"operation", "read"}, {"threads", threads}, {"bytes", 512}},
                     around(rate, turns)));
    return rows;
}

TEST(Card, exists_for_every_figure_of_the_papers) {
    std::set<std::string> wanted = {"D table 1", "D table 3", "D table 4"}, found;
    for (auto [paper, first, last] :
         {std::tuple{'A', 4, 7}, std::tuple{'B', 4, 12}, std::tuple{'C', 5, 13}, std::tuple{'D', 8, 16}})
        for (int number = first; number <= last; ++number) wanted.insert(paper + std::to_string(number));
    for (const Json& card : all_cards({}))
        EXPECT_TRUE(found.insert(card["paper_figure"].get<std::string>()).second) << "twice";
    EXPECT_EQ(found, wanted);
}

TEST(Card, has_a_reason_and_no_number_if_nothing_was_measured) {
    for (const Json& card : all_cards({})) {
        EXPECT_FALSE(card.contains("measured")) << card["paper_figure"];
        EXPECT_FALSE(card["not_measured"].get<std::string>().empty());
    }
    Json failed = {
        {"figure", "raw"}, {"rows", Json::array()}, {"error", "it ended:\n  | a log\n  | no machine\n  | "}};
    EXPECT_EQ(card_with("D15", all_cards({failed}))["verdict"], "not measured: no machine");
}

TEST(Card, is_not_measured_at_a_single_place_of_its_axis) {
    Json rows = local_rows(1, 2, 5);
    rows.erase(1);
    EXPECT_EQ(card_with("B5", cards_of(figure_of("local", rows)))["not_measured"],
              "the run has a single value of threads");
}

TEST(Card, agrees_or_differs_only_if_the_whole_interval_does) {
    auto verdict = [](double one, double many, size_t turns) {
        return card_with("B5", cards_of(figure_of("local", local_rows(one, many, turns))))["verdict"];
    };
    EXPECT_EQ(verdict(100, 900, 5), "agrees: IOPS rise with the threads (1 of 1 comparisons)");
    EXPECT_TRUE(verdict(900, 100, 5).get<std::string>().starts_with("differs: 0 of 1 comparisons agree"));
    EXPECT_TRUE(verdict(100, 900, 4).get<std::string>().ends_with("fewer than 5 turns"));
    Json rows = local_rows(100, 900, 5);
    rows[1] = row_with({{"method", "static"}, {"operation", "read"}, {"threads", 64}, {"bytes", 512}},
                       {50, 500, 60, 400, 105});
    EXPECT_TRUE(card_with("B5", cards_of(figure_of("local", rows)))["verdict"].get<std::string>().ends_with(
        "the interval includes both"));
}

TEST(Card, accepts_a_single_run_that_counts_instructions) {
    Json rows = Json::array();
    for (auto [registered, rate] : {std::pair{"one region", 900.0}, std::pair{"one region a segment", 300.0}})
        for (int pieces : {2, 32})
            rows.push_back({{"registered", registered},
                            {"piece", 4096},
                            {"pieces", pieces},
                            {"bytes", pieces * 4096},
                            {"rate", rate},
                            {"mb_per_s", rate * pieces}});
    Json card = card_with("D13", cards_of(figure_of("mlockv", rows, "counted instructions")));
    EXPECT_EQ(card["verdict"], "agrees: one region is faster than one for each segment (1 of 1 comparisons)");
    EXPECT_EQ(card["claims"][0]["ratio"], 3);
    EXPECT_EQ(card["measured"].size(), 2u) << "pieces determine the bytes, which are no further label";
}

TEST(Card, stacks_stages_beside_those_of_the_paper) {
    Json rows = Json::array();
    for (auto [stage, us] : {std::pair{"block", 1.0}, std::pair{"remote", 900.0}, std::pair{"total", 901.0},
                             std::pair{"fio's own time of it", 950.0}})
        rows.push_back({{"operation", "write"}, {"stage", stage}, {"rate", 2048}, {"mean_us", us}});
    Json bars = card_with("D table 3", cards_of(figure_of("breakdown", rows)))["stack"]["bars"];
    ASSERT_EQ(bars.size(), 2u);
    EXPECT_EQ(bars[0]["parts"][0], Json({{"name", "system call, application"}, {"y", 520}}));
    EXPECT_EQ(bars[1]["parts"], Json::array({{{"name", "system call, application"}, {"y", 49}},
                                             {{"name", "block layer"}, {"y", 1}},
                                             {{"name", "messages, RDMA, target"}, {"y", 900}}}));
}

TEST(Card, has_no_bar_for_a_part_below_zero) {
    Json rows = Json::array();
    for (double wss_us : {3.0, -1.0})
        for (int bytes : {512, 4096})
            rows.push_back({{"fabric", wss_us > 0 ? "shm" : "tcp"},
                            {"depth", 1},
                            {"bytes", bytes},
                            {"rate", 1e5},
                            {"network_us", 10 - wss_us},
                            {"wss_us", wss_us}});
    Json bars = card_with("D14", cards_of(figure_of("scsi", rows)))["stack"]["bars"];
    ASSERT_EQ(bars.size(), 2u) << "the paper's, and that of shm";
    EXPECT_EQ(bars[1]["name"], "here, shm");
}

TEST(Card, has_its_values_in_other_units_and_its_latencies) {
    Json rows = local_rows(100, 900, 5);
    for (Json& row : rows) row["latency"] = {{"percent", {50}}, {"us", {7}}, {"turns", {{7}}}};
    Json point = card_with("B5", cards_of(figure_of("local", rows)))["measured"][0]["points"][0];
    EXPECT_EQ(point["in"]["operations/s"], point["turns"]);
    EXPECT_EQ(point["in"]["MB/s"].size(), 5u);
    EXPECT_EQ(point["latency"]["us"], Json({7}));
}

TEST(Card, leaves_a_limit_that_was_exceeded_open) {
    Json rows = Json::array();
    for (int bytes : {4096, 131072})
        rows.push_back({{"operation", "read"},
                        {"depth", 1},
                        {"bytes", bytes},
                        {"rate", 1},
                        {"mb_per_s", 1},
                        {"of_net", 1.3}});
    Json card = card_with("D15", cards_of(figure_of("raw", rows, "counted instructions")));
    EXPECT_EQ(card["claims"][0]["status"], "not conclusive");
    EXPECT_EQ(card["claims"][0]["reason"], "exceeds a limit that nothing can exceed");
}

TEST(Card, shows_values_relative_to_the_base_of_the_same_turn) {
    Json rows = Json::array();
    for (int operations : {1, 4}) {
        rows.push_back(
            row_with({{"system", "RAMP(GET,PUT)"}, {"operations", operations}}, {10, 100, 10, 10, 10}));
        rows.push_back(
            row_with({{"system", "RAMP(GET+,PUT+)"}, {"operations", operations}}, {20, 200, 20, 20, 20}));
    }
    Json card = card_with("A5", cards_of(figure_of("ramp-size", rows)));
    EXPECT_EQ(card["measured"][0]["points"][0]["turns"], Json({1.0, 1.0, 1.0, 1.0, 1.0}));
    EXPECT_EQ(card["measured"][1]["points"][0]["turns"], Json({2.0, 2.0, 2.0, 2.0, 2.0}));
    EXPECT_EQ(card["claims"][0]["ratio"], 2);
    EXPECT_EQ(card["claims"][0]["paper"], "2.07");
}

Json remote_row(const char* what, const char* method, int connections, int bytes,
                const std::vector<double>& rates) {
    return row_with({{"what", what},
                     {"method", method},
                     {"connections", connections},
                     {"depth", 64},
                     {"fabric", "shm"},
                     {"operation", "read"},
                     {"pattern", "random"},
                     {"bytes", bytes}},
                    rates);
}

TEST(Card, of_the_best_settings_chooses_them_by_other_turns) {
    Json rows = Json::array();
    for (int bytes : {512, 4096}) {
        rows.push_back(remote_row("remote", "static", 1, bytes, {90, 1, 1, 1, 1}));  // 90 by chance
        rows.push_back(remote_row("remote", "static", 8, bytes, {20, 20, 20, 20, 20}));
        rows.push_back(remote_row("remote", "dynamic", 1, bytes, {2, 2, 2, 2, 2}));
    }
    Json card = card_with("B12", cards_of(figure_of("remote", rows)));
    EXPECT_EQ(card["measured"][0]["points"][0]["turns"], Json({20.0, 20.0, 20.0, 20.0, 20.0}));
    EXPECT_EQ(card["claims"][0]["ratio"], 10);
}

TEST(Card, joins_labels_to_the_categories_of_bars) {
    Json rows =
        Json::array({remote_row("remote", "static", 1, 512, {4}), remote_row("echo", "", 1, 512, {9})});
    Json card = card_with("C9", cards_of(figure_of("remote", rows)));
    ASSERT_EQ(card["measured"].size(), 1u);
    EXPECT_EQ(card["measured"][0]["points"][0]["x"], "remote static");
    EXPECT_EQ(card["measured"][0]["points"][1]["x"], "echo");
}

TEST(Card, quotes_a_value_only_at_its_point) {
    Json cards = all_cards({});
    EXPECT_EQ(card_with("B8", cards)["values"][0]["x"], 1);
    EXPECT_FALSE(card_with("B10", cards)["values"][0].contains("x"))
        << "the paper names no number of connections";
}

TEST(Badge, names_how_a_value_was_transferred) {
    EXPECT_EQ(badge_of("shm", false, false), "memory copy");
    EXPECT_EQ(badge_of("tcp", false, false), "memory copy");
    EXPECT_EQ(badge_of("tcp", true, false), "TCP network");
    EXPECT_EQ(badge_of("local", false, false), "no network");
    EXPECT_EQ(badge_of("rdma", false, true), "soft RDMA, virtual time");
}

}  // namespace
}  // namespace wss::wssbench
