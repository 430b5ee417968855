// SPDX-License-Identifier: Apache-2.0
// The ratios of ramp, scaling and ceph.
#include <gtest/gtest.h>

#include "tools/wssbench/ceph.h"
#include "tools/wssbench/measure.h"
#include "tools/wssbench/ramp.h"
#include "tools/wssbench/scaling.h"

namespace wss::wssbench {
namespace {

Json row_with(Json labels, const std::vector<double>& rates) {
    std::vector<Sample> samples;
    for (double rate : rates) samples.push_back({.rate = rate});
    labels.update(summary(samples));
    return labels;
}

TEST(Ramp, compares_systems_turn_by_turn) {
    Json figure = {{"rows", Json::array({row_with({{"system", "base"}, {"n", 8}}, {100, 10, 20}),
                                         row_with({{"system", "ours"}, {"n", 8}}, {200, 20, 200})})}};
    compare({"n", 8, "base", {{"ours", 2.5}}}, figure);
    EXPECT_EQ(figure["ratio"], 2);
    EXPECT_EQ(figure["bound"], 2.5);
    EXPECT_EQ(figure["bounds"][0]["rate"], 200);
}

TEST(Ramp, adds_no_ratio_if_a_system_was_not_measured) {
    Json figure = {{"rows", Json::array({row_with({{"system", "base"}, {"n", 8}}, {100})})},
                   {"ratio", nullptr}};
    compare({"n", 8, "base", {{"ours", 2.5}}}, figure);
    EXPECT_TRUE(figure["ratio"].is_null());
    EXPECT_FALSE(figure.contains("bounds"));
}

double growth(const std::vector<double>& first, const std::vector<double>& last) {
    Json rows = Json::array();
    for (auto [count, cost] : {std::pair{1000, first}, std::pair{1'000'000, last}})
        rows.push_back({{"of", "keys"},
                        {"count", count},
                        {"cpu_us", 1},
                        {"server_mib", 10.0},
                        {"turns", {{"cpu_us", cost}}}});
    Json figure = {{"rows", rows}, {"ratio", nullptr}};
    add_growth_bounds(figure);
    return figure["ratio"].get<double>();
}

TEST(Scaling, shows_a_growth_beyond_the_logarithm) {
    EXPECT_GT(growth({1}, {1.5}), 1);
    EXPECT_LT(growth({1}, {3}), 1);
}

TEST(Scaling, is_not_affected_by_a_turn_that_is_slow_as_a_whole) {
    EXPECT_EQ(growth({1, 10, 1}, {1.5, 15, 15}), growth({1}, {1.5}));
}

TEST(Scaling, reports_the_number_at_which_the_cost_grew_most) {
    Json rows = Json::array();
    for (auto [count, cost] : {std::pair{1, 1.0}, std::pair{10, 9.0}, std::pair{1000, 2.0}})
        rows.push_back({{"of", "connections"},
                        {"count", count},
                        {"cpu_us", cost},
                        {"turns", {{"cpu_us", Json::array({cost})}}}});
    Json figure = {{"rows", rows}, {"ratio", nullptr}};
    add_growth_bounds(figure);
    EXPECT_EQ(figure["bounds"][0]["to"], 10);
    EXPECT_LT(figure["ratio"].get<double>(), 1);
}

TEST(Scaling, has_no_bounds_for_a_kind_with_one_row) {
    Json figure = {{"rows", Json::array({{{"of", "keys"}, {"count", 1000}, {"cpu_us", 1}}})},
                   {"ratio", nullptr}};
    add_growth_bounds(figure);
    EXPECT_TRUE(figure["bounds"].empty());
    EXPECT_TRUE(figure["ratio"].is_null());
}

Json read_of(const char* way, uint32_t depth, double latency, double cpu, double osd) {
    Json turns = {{"latency_us", Json::array({latency})},
                  {"cpu_us", Json::array({cpu})},
                  {"osd_us", Json::array({osd})}};
    return {{"operation", "read"}, {"size", "4K"}, {"depth", depth},
            {"way", way},          {"rate", 1},    {"turns", turns}};
}

TEST(Ceph, compares_warm_reads_by_processor_time_and_misses_by_latency) {
    Json figure = {
        {"rows", Json::array({read_of("librbd", 16, 9, 60, 90), read_of("engines-warm", 16, 9, 15, 0),
                              read_of("librbd", 1, 300, 1, 1), read_of("engines-cold", 1, 450, 1, 1)})}};
    add_ceph_ratios(figure);
    EXPECT_EQ(figure["ratio"], 10);
    EXPECT_EQ(figure["ratio_without_osds"], 4);
    EXPECT_EQ(figure["miss_latency"], 1.5);
    EXPECT_FALSE(figure.contains("miss_latency_without_cache"));
}

}  // namespace
}  // namespace wss::wssbench
