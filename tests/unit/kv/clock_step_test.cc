// SPDX-License-Identifier: Apache-2.0
// The time of day of a partition is stepped, or ahead of what is written.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

constexpr int64_t kHour_us = 3'600'000'000;

wire::KvPrepare write_of(uint64_t timestamp, const std::string& key) {
    wire::KvPrepare prepare;
    prepare.timestamp = timestamp;
    prepare.participants = {0};
    prepare.items.emplace_back().key = key;
    return prepare;
}

TEST(ClockStep, too_old_names_the_version_in_the_way_and_not_the_clock) {
    Cluster cluster({.partitions = 1});
    RawClient client(cluster.addresses()[0]);
    const uint64_t hour_ago = static_cast<uint64_t>(-kHour_us);
    const uint64_t version = client.transaction(hour_ago + 1000);
    ASSERT_EQ(client.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit, write_of(version, "key")),
              wire::KvStatus::kCommitted);
    ASSERT_EQ(client.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit,
                         write_of(client.transaction(hour_ago), "key")),
              wire::KvStatus::kTooOld);
    EXPECT_EQ(client.named().value, version);
}

TEST(ClockStep, back_below_the_floor_leaves_a_partition_writable) {
    Cluster cluster({.partitions = 1, .clocks_ahead_us = {kHour_us}});
    {
        RawClient before(cluster.addresses()[0]);
        const Timestamp floor{before.transaction(0)};
        cluster.on(0, [&](Service& service) { service.store().raise_floor(floor); });
    }
    cluster.step_clock(0, 0);
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    Status status = put(**client, {{"key", "value"}});
    EXPECT_TRUE(status) << status.to_string();
}

}  // namespace wss::kv::test
