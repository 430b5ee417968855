// SPDX-License-Identifier: Apache-2.0
// The keys and distributions of YCSB. The golden values come from YCSB's own Java classes. Java's generator
// cannot be seeded, so distributions are compared by the frequencies of their first ranks.
#include "tools/ycsb/generators.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>

#include "tools/ycsb/hash.h"

namespace wss::ycsb {
namespace {

TEST(YcsbKeys, match_those_of_the_original) {
    const std::pair<uint64_t, const char*> golden[] = {
        {0, "user6284781860667377211"},        {1, "user8517097267634966620"},
        {2, "user1820151046732198393"},        {9, "user9105318085603802964"},
        {10, "user2408371864701034737"},       {99, "user6405349725575133178"},
        {100, "user879817313296471393"},       {999, "user2071219101098386137"},
        {1000, "user5952875239596136740"},     {65535, "user8476454546330126581"},
        {65536, "user3733039891711757428"},    {999999, "user2744965632448235251"},
        {10000000, "user8346203779164515899"}, {2147483647, "user627943977067101855"},
        {4294967296, "user634246865027890484"}};
    for (const auto& [number, name] : golden) EXPECT_EQ(key_name(number, 1, false), name);
}

TEST(YcsbKeys, that_are_ordered_are_padded_numbers) {
    EXPECT_EQ(key_name(42, 1, true), "user42");
    EXPECT_EQ(key_name(42, 8, true), "user00000042");
    EXPECT_EQ(key_name(2147483647, 24, false), "user000000627943977067101855");
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kDraws = 400'000;
#else
constexpr int kDraws = 4'000'000;
#endif

std::map<uint64_t, double> frequencies(Generator& generator) {
    Random random(20160101);
    std::map<uint64_t, double> seen;
    for (int i = 0; i < kDraws; ++i) seen[generator.next(random)] += 1.0 / kDraws;
    return seen;
}

// Six standard deviations of a frequency p over kDraws draws, and the golden value's last digit.
double tolerance(double p, double digit) {
    return 6 * std::sqrt(p * (1 - p) / kDraws) + digit;
}

void expect_frequencies(Generator& generator, const std::map<uint64_t, double>& golden, double digit) {
    auto seen = frequencies(generator);
    for (const auto& [number, p] : golden) EXPECT_NEAR(seen[number], p, tolerance(p, digit)) << number;
}

TEST(YcsbDistribution, scrambled_zipfian_has_the_hot_records_of_the_original) {
    ScrambledZipfian generator(0, 1000);  // recordcount=1000: 1001 items
    expect_frequencies(
        generator, {{144, .03843}, {610, .01999}, {213, .01600}, {679, .01157}, {10, .00932}, {545, .00775}},
        1.5e-4);
}

TEST(YcsbDistribution, zipfian_follows_its_law) {
    Zipfian generator(0, 999);
    EXPECT_NEAR(zeta(0, 1000, .99, 0), 7.728953217, 1e-8);
    expect_frequencies(generator, {{0, .12927}, {1, .0651}, {2, .0511}, {3, .0363}, {4, .0284}, {5, .0232}},
                       1.5e-4);
}

TEST(YcsbDistribution, latest_prefers_the_newest_and_never_draws_the_first) {
    Insertions insertions(1000);
    Latest generator(insertions);
    expect_frequencies(generator, {{999, .1292}, {998, .0653}, {997, .0510}, {996, .0364}, {995, .0284}},
                       1.5e-4);
    EXPECT_EQ(frequencies(generator).begin()->first, 1u);
}

TEST(YcsbDistribution, latest_follows_insertions) {
    Insertions insertions(10);
    Latest generator(insertions);
    Random random(1);
    for (int i = 0; i < 90; ++i) ASSERT_TRUE(insertions.acknowledge(insertions.take()));
    uint64_t newest = 0;
    for (int i = 0; i < 1000; ++i) newest = std::max(newest, generator.next(random));
    EXPECT_EQ(newest, 99u);
}

TEST(YcsbDistribution, hotspot_sends_its_share_to_the_hot_records) {
    Hotspot generator(0, 999, .2, .8);
    double hot = 0;
    for (const auto& [number, p] : frequencies(generator)) {
        EXPECT_LT(number, 1000u);
        if (number < 200) hot += p;
    }
    EXPECT_NEAR(hot, .8, tolerance(.8, 0));
}

TEST(YcsbDistribution, hotspot_without_cold_or_without_hot_records_still_draws) {
    Random random(3);
    Hotspot all(5, 9, 1, .1), none(5, 9, 0, .9);
    for (int i = 0; i < 100; ++i) {
        EXPECT_LE(all.next(random), 9u);
        EXPECT_GE(none.next(random), 5u);
    }
}

TEST(YcsbDistribution, uniform_reaches_both_ends_evenly) {
    Uniform generator(10, 19);
    auto seen = frequencies(generator);
    EXPECT_EQ(seen.size(), 10u);
    for (const auto& [number, p] : seen) EXPECT_NEAR(p, .1, tolerance(.1, 0)) << number;
}

TEST(YcsbDistribution, exponential_keeps_its_percentile) {
    Exponential generator(95, 857);
    double below = 0;
    for (const auto& [number, p] : frequencies(generator))
        if (number < 857) below += p;
    EXPECT_NEAR(below, .95, tolerance(.95, 0));
}

TEST(YcsbDistribution, sequential_wraps_around) {
    Sequential generator(3, 5, std::make_shared<std::atomic<uint64_t>>(0));
    Random random(1);
    for (uint64_t expected : {3, 4, 5, 3, 4, 5, 3}) EXPECT_EQ(generator.next(random), expected);
}

TEST(YcsbInsertions, let_a_record_exist_when_all_records_before_it_exist) {
    Insertions insertions(100);
    EXPECT_EQ(insertions.last(), 99);
    uint64_t a = insertions.take(), b = insertions.take(), c = insertions.take();
    EXPECT_TRUE(insertions.acknowledge(c));
    EXPECT_TRUE(insertions.acknowledge(b));
    EXPECT_EQ(insertions.last(), 99);
    EXPECT_TRUE(insertions.acknowledge(a));
    EXPECT_EQ(insertions.last(), 102);
}

TEST(YcsbInsertions, have_a_bounded_window) {
    Insertions insertions(0);
    EXPECT_EQ(insertions.last(), -1);
    EXPECT_FALSE(insertions.acknowledge(Insertions::kWindow));
    EXPECT_TRUE(insertions.acknowledge(0));
    EXPECT_TRUE(insertions.acknowledge(Insertions::kWindow));
}

TEST(YcsbInsertions, by_several_threads_lose_no_number) {
    Insertions insertions(0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 10000; ++i) EXPECT_TRUE(insertions.acknowledge(insertions.take()));
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(insertions.last(), 39999);
}

}  // namespace
}  // namespace wss::ycsb
