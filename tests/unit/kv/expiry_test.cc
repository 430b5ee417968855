// SPDX-License-Identifier: Apache-2.0
// Keys that were written together expire together, whatever the clocks of partitions and readers show.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"

namespace wss::kv::test {

// One partition has replaced its expired key with a tombstone. The clocks of the reader and of the other
// partition are behind.
TEST(Expiry, of_one_key_is_seen_together_with_that_of_its_siblings) {
    Cluster cluster({.partitions = 2});
    auto client = LocalClient::connect(cluster.client_options());
    auto reader = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client && reader);
    std::string a = "a", b = "b";
    while ((*client)->partition_of(b) == (*client)->partition_of(a)) b += "b";
    PutAll put;
    put.items.push_back({.key = a, .value = "value"});
    put.items.push_back({.key = b, .value = "value"});
    put.ttl_ms = 20'000;
    (*client)->run(put);
    ASSERT_TRUE(put.status) << put.status.to_string();
    const Timestamp later = Timestamp::make(put.timestamp.ticks() + 21'000'000, 0);
    cluster.on((*client)->partition_of(b), [&](Service& service) { service.store().maintain(later); });
    // The first reader reads the value first, and the second one the tombstone.
    EXPECT_EQ(get(**reader, {a, b}), (std::vector<std::string>{"(none)", "(none)"}));
    auto another = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(another);
    EXPECT_EQ(get(**another, {b, a}), (std::vector<std::string>{"(none)", "(none)"}));
}

// With a longer time to live the expiry timestamp would wrap around to an earlier one.
TEST(Expiry, after_a_time_to_live_beyond_the_range_of_timestamps_is_refused) {
    Cluster cluster({.partitions = 1});
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client);
    PutAll put;
    put.items.push_back({.key = "key", .value = "value"});
    PutIf put_if;
    put_if.key = "other";
    for (uint64_t years : {36, 100, 100'000}) {
        put.ttl_ms = put_if.ttl_ms = years * 365 * 86'400'000;
        (*client)->run(put);
        EXPECT_EQ(put.status.code(), Code::kInvalid) << years;
        (*client)->run(put_if);
        EXPECT_EQ(put_if.status.code(), Code::kInvalid) << years;
    }
    put.ttl_ms = put_if.ttl_ms = kTtlMax_ms;
    (*client)->run(put);
    (*client)->run(put_if);
    EXPECT_TRUE(put.status) << put.status.to_string();
    EXPECT_TRUE(put_if.status) << put_if.status.to_string();
    EXPECT_EQ(get(**client, {"key", "other"}), (std::vector<std::string>{"value", ""}));
}

// A program that imports keys near their expiry needs this status, as the client chooses the timestamp.
TEST(ExpiryMoment, that_has_passed_before_a_write_begins_is_distinguished_from_failures) {
    Cluster cluster({.partitions = 2});
    for (Algorithm algorithm : {Algorithm::kRampFast, Algorithm::kLockParallel}) {
        kv::Options options = cluster.client_options();
        options.algorithm = algorithm;
        auto client = LocalClient::connect(options);
        ASSERT_TRUE(client) << client.status().to_string();
        PutAll request;
        request.items = {{.key = key_on(0, 2), .value = "value"}, {.key = key_on(1, 2), .value = "value"}};
        request.expires = Timestamp::make(SystemWallClock().ticks() - 1, 0);
        (*client)->run(request);
        EXPECT_FALSE(request.status);
        EXPECT_TRUE(request.is_over);
        EXPECT_FALSE(request.outcome_unknown);
        request.expires = Timestamp::make(SystemWallClock().ticks() + 60'000'000, 0);
        (*client)->run(request);
        EXPECT_TRUE(request.status) << request.status.to_string();
        EXPECT_FALSE(request.is_over);
    }
}

}  // namespace wss::kv::test
