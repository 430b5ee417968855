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

constexpr size_t kPlaces = 256;

struct PendingPlacesTest : testing::Test {
    PendingPlaces places{kPlaces, kPlaces};
    std::vector<Place> evicted;
    size_t arrivals = 0;

    // An evicted connection leaves at once.
    Place take(const std::string& source) {
        const auto taken = places.take(source);
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
    // Makes `logins` logins from `sources` sources in turn.
    void flood(size_t logins, size_t sources) {
        for (size_t i = 0; i < logins; ++i) take("attacker" + std::to_string(arrivals++ % sources));
    }
};

TEST_F(PendingPlacesTest, evict_the_oldest_connection_of_the_source_that_has_the_most_for_a_new_one) {
    const Place elsewhere = take("b");
    std::vector<Place> one;
    while (one.size() < kPlaces - 1) one.push_back(take("a"));
    EXPECT_NE(take("c"), 0u);
    EXPECT_EQ(evicted, std::vector<Place>{one[0]});
    EXPECT_NE(take("b"), 0u);
    EXPECT_TRUE(is_evicted(one[1]));
    EXPECT_FALSE(is_evicted(elsewhere));
}

TEST_F(PendingPlacesTest, limit_the_evicted_connections_that_still_exist) {
    for (size_t i = 0; i < 2 * kPlaces; ++i) EXPECT_NE(places.take("a").place, 0u);
    EXPECT_EQ(places.take("b").place, 0u) << "all of them still have their memory";
    places.left(1);
    EXPECT_NE(places.take("b").place, 0u);
}

TEST_F(PendingPlacesTest, give_a_source_a_place_to_keep_during_a_flood_from_fewer_sources_than_places) {
    for (size_t sources : {1, 40, 100}) {
        flood(5 * sources + 1000, sources);
        const Place honest = take("honest");
        ASSERT_NE(honest, 0u) << sources;
        flood(40'000, sources);
        ASSERT_FALSE(is_evicted(honest)) << sources;
        places.left(honest);
    }
}

TEST_F(PendingPlacesTest, keep_every_connection_for_half_as_many_arrivals_as_there_are_places) {
    for (size_t sources : {1, 100, 1000, 100'000}) {
        flood(5 * kPlaces, sources);
        // The flood evicts each try. Another try is not at a disadvantage, and neither are several at once.
        for (int tries = 0; tries < 50; ++tries) {
            std::vector<Place> honest;
            for (int channel = 0; channel < 16; ++channel) honest.push_back(take("honest"));
            flood(kPlaces / 2 - 16, sources);
            for (Place each : honest) {
                ASSERT_NE(each, 0u) << sources;
                ASSERT_FALSE(is_evicted(each)) << sources << " sources, try " << tries;
            }
            flood(kPlaces, sources);
            for (Place each : honest)
                if (!is_evicted(each)) places.left(each);
        }
    }
}

TEST_F(PendingPlacesTest, keep_connections_of_a_proven_source_during_a_flood_from_more_sources_than_places) {
    places.proven(take("honest"));
    flood(5 * kPlaces, 100'000);
    std::vector<Place> honest;
    while (honest.size() < PendingPlaces::kProvenPlaces) honest.push_back(take("honest"));
    const Place stranger = take("stranger");
    flood(10 * kPlaces, 100'000);
    EXPECT_TRUE(is_evicted(stranger));
    for (Place each : honest) EXPECT_FALSE(is_evicted(each));
}

TEST_F(PendingPlacesTest, evict_no_connection_of_others_during_a_flood_from_a_proven_source) {
    places.proven(take("turned"));
    const Place honest = take("honest");
    for (size_t i = 0; i < 10 * kPlaces; ++i) take("turned");
    EXPECT_FALSE(is_evicted(honest));
}

TEST_F(PendingPlacesTest, remember_a_limited_number_of_proven_sources_and_forget_the_earliest) {
    for (size_t i = 0; i <= PendingPlaces::kProvenMax; ++i) places.proven(take("source" + std::to_string(i)));
    EXPECT_EQ(places.proven_sources(), PendingPlaces::kProvenMax);
    const Place first = take("source0"), last = take("source1");
    flood(10 * kPlaces, 100'000);
    EXPECT_TRUE(is_evicted(first));
    EXPECT_FALSE(is_evicted(last));
}

}  // namespace
}  // namespace wss::fabric
