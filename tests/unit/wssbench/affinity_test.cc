// SPDX-License-Identifier: Apache-2.0
// The figures affinity and pollers, without measurements.
#include "tools/wssbench/affinity.h"

#include <gtest/gtest.h>

#include "tools/wssbench/pollers.h"

namespace wss::wssbench {
namespace {

constexpr uint32_t kNodes = 4;

IoTrace trace_of(size_t accesses) {
    IoTrace trace{.bytes_max = 512};
    for (size_t i = 0; i < accesses; ++i) trace.accesses.push_back({false, i * 512, 512});
    return trace;
}

std::vector<uint32_t> homes_of(const PlacedQuery& query) {
    std::vector<uint32_t> homes(kNodes);
    for (const affinity::Operator& one : query.operators) ++homes[affinity::home_of(one)];
    return homes;
}

TEST(AffinityFigure, makes_the_first_node_home_of_its_share_and_lets_the_others_share_the_rest) {
    EXPECT_EQ(homes_of(place_trace(trace_of(1600), kNodes, 16, 70, 0)),
              (std::vector<uint32_t>{70, 10, 10, 10}));
    EXPECT_EQ(homes_of(place_trace(trace_of(1600), kNodes, 16, 100, 0)),
              (std::vector<uint32_t>{100, 0, 0, 0}));
}

TEST(AffinityFigure, has_operators_with_every_access_of_the_trace_in_order) {
    IoTrace trace = trace_of(1003);
    PlacedQuery query = place_trace(trace, kNodes, 16, 40, 20);
    ASSERT_EQ(query.operators.size(), 63u);
    size_t next = 0, away = 0;
    for (size_t i = 0; i < query.operators.size(); ++i) {
        std::vector<uint32_t> counts(kNodes);
        for (const NodeAccess& access : query.accesses[i]) {
            ASSERT_EQ(access.access.offset, trace.accesses[next++].offset);
            ++counts[access.node];
            away += access.node != affinity::home_of(query.operators[i]);
        }
        EXPECT_EQ(counts, query.operators[i].accesses);
    }
    EXPECT_EQ(next, trace.accesses.size());
    EXPECT_NEAR(static_cast<double>(away), 200, 50);
}

Json row(Json labels, const std::vector<double>& rates, double accesses = 0) {
    std::vector<Sample> samples;
    for (double rate : rates) {
        samples.push_back({.rate = rate});
        if (accesses > 0) samples.back().more = {{"run_seconds", accesses / rate}};
    }
    labels.update(summary(samples));
    return labels;
}

Json capacity(const char* placement, const std::vector<double>& rates) {
    return row({{"what", "capacity"}, {"fabric", "tcp"}, {"placement", placement}}, rates);
}

Json query_row(const char* placement, const std::vector<double>& rates) {
    return row({{"what", "query"}, {"fabric", "tcp"}, {"placement", placement}, {"hot_percent", 100}}, rates,
               1600);
}

// All blocks are on one of four nodes. In the first turn a node reads 100/s locally and 50/s remotely, which
// allows 250/s together. In the second turn everything is twice as fast.
Json figure_of_two_turns() {
    return {{"rows", Json::array({capacity("local", {400, 800}), capacity("remote", {200, 400}),
                                  capacity("one storage", {4000, 8000}), query_row("random", {100, 200}),
                                  query_row("local", {100, 200}), query_row("remote", {125, 250}),
                                  query_row("ours", {225, 450})})},
            {"ratio", nullptr}};
}

TEST(AffinityFigure, compares_our_placement_with_the_bound_of_the_same_turn) {
    Json figure = figure_of_two_turns();
    add_affinity_bounds(figure, {.nodes = kNodes, .workers = 1},
                        {place_trace(trace_of(1600), kNodes, 16, 100, 0)});
    ASSERT_EQ(figure["bounds"].size(), 1u);
    Json bound = figure["bounds"][0];
    EXPECT_NEAR(bound["bound"].get<double>(), 375, 1);
    EXPECT_NEAR(bound["ratio"].get<double>(), 0.9, 1e-6);
    EXPECT_NEAR(bound["ratio_low"].get<double>(), bound["ratio_high"].get<double>(), 1e-6);
    EXPECT_NEAR(bound["gain"].get<double>(), 225.0 / 125, 1e-6) << "over the best of the other placements";
    EXPECT_EQ(figure["ratio"], bound["ratio"]);
}

TEST(AffinityFigure, has_no_bound_without_a_rate_or_a_placement) {
    for (size_t missing = 0; missing < 7; ++missing) {
        Json figure = figure_of_two_turns();
        figure["rows"].erase(missing);
        add_affinity_bounds(figure, {.nodes = kNodes, .workers = 1},
                            {place_trace(trace_of(1600), kNodes, 16, 100, 0)});
        EXPECT_TRUE(figure["bounds"].empty()) << missing;
        EXPECT_TRUE(figure["ratio"].is_null()) << missing;
    }
}

Json poller_row(const char* method, uint32_t pollers, const std::vector<double>& rates) {
    return row(
        {{"what", "remote"}, {"method", method}, {"class", ""}, {"dispatchers", 1}, {"pollers", pollers}},
        rates);
}

TEST(PollersFigure, compares_the_methods_in_each_turn_and_setting) {
    Json figure = {
        {"rows", Json::array({poller_row("static", 0, {300, 30}), poller_row("dynamic", 0, {100, 10}),
                              poller_row("static", 4, {50, 50}), poller_row("dynamic", 4, {50, 25}),
                              poller_row("static", 8, {50, 50})})},
        {"ratio", nullptr}};
    add_pollers_ratios(figure);
    ASSERT_EQ(figure["bounds"].size(), 2u);
    EXPECT_EQ(figure["bounds"][0]["ratio"], 3);
    EXPECT_EQ(figure["bounds"][1]["ratio"], 1.5);
    EXPECT_EQ(figure["ratio"], 3) << "the ratio without pollers is that of the figure";
}

}  // namespace
}  // namespace wss::wssbench
