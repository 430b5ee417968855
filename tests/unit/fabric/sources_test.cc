// SPDX-License-Identifier: Apache-2.0
// Which peers count as one source, and which source holds the most places.
#include "lib/fabric/sources.h"

#include <gtest/gtest.h>

namespace wss::fabric {
namespace {

TEST(Sources, combine_the_peers_of_one_host_whatever_their_port) {
    EXPECT_EQ(source_of("10.0.0.1:4711"), "10.0.0.1");
    EXPECT_EQ(source_of("10.0.0.1:4712"), source_of("10.0.0.1:4711"));
    EXPECT_EQ(source_of("[::1]:5"), "::1");
    EXPECT_EQ(source_of("[::ffff:10.0.0.1]:5"), "::ffff:10.0.0.1");
    EXPECT_EQ(source_of("pid 12 uid 0"), "pid 12 uid 0");
    EXPECT_EQ(source_of("client3"), "client3");
}

TEST(Sources, combine_the_ipv6_hosts_of_one_network) {
    EXPECT_EQ(source_of("[2001:db8:1:2::3]:5"), "2001:db8:1:2::/64");
    EXPECT_EQ(source_of("[2001:db8:1:2:ffff::1]:99"), "2001:db8:1:2::/64");
    EXPECT_NE(source_of("[2001:db8:1:3::3]:5"), source_of("[2001:db8:1:2::3]:5"));
}

TEST(Sources, have_one_for_each_invalid_address) {
    for (const char* peer : {"", "[", "[:", "unknown address", "an unknown peer", "::1", "[nonsense]:1"})
        source_of(peer);
    EXPECT_EQ(source_of(""), "");
    EXPECT_EQ(source_of("an unknown peer"), "an unknown peer");
}

TEST(Sources, show_the_one_with_the_most_places_as_places_are_taken_and_released) {
    SourceCounts counts;
    counts.add("a");
    counts.add("b");
    counts.add("b");
    EXPECT_EQ(counts.most(), 2u);
    counts.remove("b");
    EXPECT_EQ(counts.most(), 1u);
    counts.remove("b");
    EXPECT_EQ(counts.most(), 1u);
    EXPECT_EQ(counts.of("b"), 0u);
    counts.remove("a");
    EXPECT_EQ(counts.most(), 0u);
    EXPECT_TRUE(counts.empty());
}

}  // namespace
}  // namespace wss::fabric
