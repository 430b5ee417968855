// SPDX-License-Identifier: Apache-2.0
// Floods of unauthenticated connections from one address and from many: which get a place, and which are
// evicted.
#include "lib/fabric/stranger_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace wss::fabric {
namespace {

using Place = StrangerPlaces::Place;

constexpr size_t kPlaces = 32;
constexpr Nanoseconds kStart = from_s(1000);

struct StrangerPlacesTest : testing::Test {
    StrangerPlaces places{kPlaces, kPlaces};
    Nanoseconds now = kStart;
    std::vector<Place> evicted;

    // An evicted connection leaves at once.
    Place take(const std::string& source) {
        const auto taken = places.take(source, now);
        if (taken.evicted != 0) {
            EXPECT_TRUE(places.is_evicted(taken.evicted));
            places.left(taken.evicted);
            evicted.push_back(taken.evicted);
        }
        return taken.place;
    }
    bool is_evicted(Place place) const {
        return std::find(evicted.begin(), evicted.end(), place) != evicted.end();
    }
    static std::string attacker(size_t number) { return "attacker" + std::to_string(number); }
    // Makes `logins` logins, one each 0.1 ms, from `sources` sources in turn.
    void flood(size_t logins, size_t sources) {
        for (size_t i = 0; i < logins; ++i, now = now + from_us(100)) take(attacker(i % sources));
    }
};

TEST_F(StrangerPlacesTest, a_newcomer_evicts_the_oldest_stranger_of_the_source_that_has_most) {
    const Place elsewhere = take("b");
    std::vector<Place> one;
    while (one.size() < kPlaces - 1) one.push_back(take("a"));
    EXPECT_NE(take("c"), 0u);
    EXPECT_EQ(evicted, std::vector<Place>{one[0]});
    EXPECT_NE(take("b"), 0u);
    EXPECT_TRUE(is_evicted(one[1]));
    EXPECT_FALSE(is_evicted(elsewhere));
}

TEST_F(StrangerPlacesTest, a_source_displaces_its_own_strangers_after_the_grace_only) {
    const Place first = take("a");
    for (size_t i = 1; i < kPlaces; ++i) take("a");
    EXPECT_EQ(take("a"), 0u);
    now = now + StrangerPlaces::kGrace;
    EXPECT_NE(take("a"), 0u);
    EXPECT_EQ(evicted, std::vector<Place>{first});
}

TEST_F(StrangerPlacesTest, evicted_strangers_that_are_not_gone_yet_leave_room_for_other_sources_first) {
    for (size_t i = 0; i < kPlaces; ++i) take("a");
    now = now + StrangerPlaces::kGrace;
    for (size_t i = 0; i < kPlaces / 2; ++i) EXPECT_NE(places.take("a", now).place, 0u);
    EXPECT_EQ(places.take("a", now).place, 0u);
    for (size_t i = 0; i < kPlaces / 2; ++i) EXPECT_NE(places.take(attacker(i), now).place, 0u);
    EXPECT_EQ(places.take("b", now).place, 0u) << "all of them still have their memory";
}

TEST_F(StrangerPlacesTest, a_source_finds_a_place_and_keeps_it_during_a_flood_from_more_sources_than_places) {
    for (size_t sources : {1, 40, 200, 2000}) {
        flood(5 * sources + 1000, sources);
        const Place honest = take("honest");
        ASSERT_NE(honest, 0u) << sources;
        flood(40'000, sources);
        ASSERT_FALSE(is_evicted(honest)) << sources;
        places.proven(honest);
    }
}

TEST_F(StrangerPlacesTest, strangers_that_have_proven_themselves_do_not_count) {
    for (int i = 0; i < 1000; ++i) places.proven(take("honest"));
    flood(1000, 200);
    const Place honest = take("honest");
    EXPECT_NE(honest, 0u);
    flood(10'000, 200);
    EXPECT_FALSE(is_evicted(honest));
}

TEST_F(StrangerPlacesTest, strangers_of_long_ago_do_not_count) {
    for (int i = 0; i < 1000; ++i) places.left(take("reformed"));
    now = now + StrangerPlaces::kMemory + StrangerPlaces::kMemory;
    take("reformed");
    EXPECT_EQ(places.sources(), 1u);
    flood(1000, 40);
    EXPECT_NE(take("reformed"), 0u);
}

TEST_F(StrangerPlacesTest, however_many_sources_come_the_number_that_is_remembered_is_bounded) {
    flood(100'000, 100'000);
    EXPECT_LE(places.sources(), StrangerPlaces::kSourcesMax);
    EXPECT_GT(places.sources(), kPlaces);
}

}  // namespace
}  // namespace wss::fabric
