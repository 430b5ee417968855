// SPDX-License-Identifier: Apache-2.0
// Floods of unauthenticated connections from one address and from many: which get a place, and which are
// evicted.
#include "lib/fabric/pending_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace wss::fabric {
namespace {

using Place = PendingPlaces::Place;

constexpr size_t kPlaces = 32;
constexpr Nanoseconds kStart = from_s(1000);

struct PendingPlacesTest : testing::Test {
    PendingPlaces places{kPlaces, kPlaces};
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
    // Makes `logins` logins, one every 0.1 ms, from `sources` sources in turn.
    void flood(size_t logins, size_t sources) {
        for (size_t i = 0; i < logins; ++i, now = now + from_us(100)) take(attacker(i % sources));
    }
};

TEST_F(PendingPlacesTest, a_new_connection_evicts_the_oldest_one_of_the_source_that_has_the_most) {
    const Place elsewhere = take("b");
    std::vector<Place> one;
    while (one.size() < kPlaces - 1) one.push_back(take("a"));
    EXPECT_NE(take("c"), 0u);
    EXPECT_EQ(evicted, std::vector<Place>{one[0]});
    EXPECT_NE(take("b"), 0u);
    EXPECT_TRUE(is_evicted(one[1]));
    EXPECT_FALSE(is_evicted(elsewhere));
}

TEST_F(PendingPlacesTest, a_source_displaces_its_own_connections_only_after_the_grace) {
    const Place first = take("a");
    for (size_t i = 1; i < kPlaces; ++i) take("a");
    EXPECT_EQ(take("a"), 0u);
    now = now + PendingPlaces::kGrace;
    EXPECT_NE(take("a"), 0u);
    EXPECT_EQ(evicted, std::vector<Place>{first});
}

TEST_F(PendingPlacesTest, evicted_connections_that_still_exist_leave_room_for_other_sources_first) {
    for (size_t i = 0; i < kPlaces; ++i) take("a");
    now = now + PendingPlaces::kGrace;
    for (size_t i = 0; i < kPlaces / 2; ++i) EXPECT_NE(places.take("a", now).place, 0u);
    EXPECT_EQ(places.take("a", now).place, 0u);
    for (size_t i = 0; i < kPlaces / 2; ++i) EXPECT_NE(places.take(attacker(i), now).place, 0u);
    EXPECT_EQ(places.take("b", now).place, 0u) << "all of them still have their memory";
}

TEST_F(PendingPlacesTest, a_source_gets_and_keeps_a_place_during_a_flood_from_more_sources_than_places) {
    for (size_t sources : {1, 40, 200, 2000}) {
        flood(5 * sources + 1000, sources);
        const Place honest = take("honest");
        ASSERT_NE(honest, 0u) << sources;
        flood(40'000, sources);
        ASSERT_FALSE(is_evicted(honest)) << sources;
        places.proven(honest);
    }
}

TEST_F(PendingPlacesTest, authenticated_connections_do_not_count) {
    for (int i = 0; i < 1000; ++i) places.proven(take("honest"));
    flood(1000, 200);
    const Place honest = take("honest");
    EXPECT_NE(honest, 0u);
    flood(10'000, 200);
    EXPECT_FALSE(is_evicted(honest));
}

TEST_F(PendingPlacesTest, old_connections_do_not_count) {
    for (int i = 0; i < 1000; ++i) places.left(take("reformed"));
    now = now + PendingPlaces::kMemory + PendingPlaces::kMemory;
    take("reformed");
    EXPECT_EQ(places.sources(), 1u);
    flood(1000, 40);
    EXPECT_NE(take("reformed"), 0u);
}

TEST_F(PendingPlacesTest, the_number_of_remembered_sources_is_bounded) {
    flood(100'000, 100'000);
    EXPECT_LE(places.sources(), PendingPlaces::kSourcesMax);
    EXPECT_GT(places.sources(), kPlaces);
}

}  // namespace
}  // namespace wss::fabric
