// SPDX-License-Identifier: Apache-2.0
// The timestamps of writes under locks, where the clocks of clients and partitions differ.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

constexpr uint64_t kSecond_ticks = 1'000'000;

class LockedWrite : public testing::TestWithParam<Algorithm> {
  protected:
    static std::unique_ptr<LocalClient> locker(const Cluster& cluster) {
        kv::Options options = cluster.client_options();
        options.algorithm = GetParam();
        auto client = LocalClient::connect(options);
        EXPECT_TRUE(client) << client.status().to_string();
        return std::move(*client);
    }
    static void write(LocalClient& client, PutAll& request, const std::string& value) {
        request.items = {{.key = key_on(0, 2), .value = value}, {.key = key_on(1, 2), .value = value}};
        client.run(request);
    }
};

TEST_P(LockedWrite, follows_the_versions_of_its_own_keys_only) {
    Cluster cluster({.partitions = 2});
    RawClient ahead(cluster.addresses()[0], 2);
    wire::KvPrepare prepare;
    prepare.timestamp = ahead.transaction(50 * kSecond_ticks);
    prepare.participants = {0};
    std::string other = "other";
    while (partition_of(fingerprint(other), 2) != 0) other += 'x';
    prepare.items.emplace_back().key = other;
    ASSERT_EQ(ahead.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit, prepare), wire::KvStatus::kCommitted);
    auto client = locker(cluster);
    PutAll request;
    write(*client, request, "value");
    ASSERT_TRUE(request.status) << request.status.to_string();
    EXPECT_LT(request.timestamp.ticks() + 20 * kSecond_ticks, Timestamp{prepare.timestamp}.ticks());
}

TEST_P(LockedWrite, reaches_a_partition_whose_clock_is_far_ahead) {
    Cluster cluster({.partitions = 2, .clocks_ahead_us = {0, 90 * int64_t{kSecond_ticks}}});
    auto client = locker(cluster);
    PutAll request;
    write(*client, request, "value");
    ASSERT_TRUE(request.status) << request.status.to_string();
    EXPECT_EQ(get(*client, {key_on(0, 2), key_on(1, 2)}), (std::vector<std::string>{"value", "value"}));
}

TEST_P(LockedWrite, that_no_timestamp_suits_is_made_on_no_partition) {
    Cluster cluster({.partitions = 2, .clocks_ahead_us = {0, 3600 * int64_t{kSecond_ticks}}});
    auto client = locker(cluster);
    ASSERT_TRUE(put(*client, {{key_on(0, 2), "before"}}));
    ASSERT_TRUE(put(*client, {{key_on(1, 2), "before, an hour ahead"}}));
    PutAll request;
    write(*client, request, "after");
    ASSERT_FALSE(request.status);
    EXPECT_FALSE(request.outcome_unknown);
    EXPECT_NE(request.status.to_string().find("partition 0 (" + cluster.addresses()[0]), std::string::npos)
        << request.status.to_string();
    EXPECT_EQ(get(*client, {key_on(0, 2), key_on(1, 2)}),
              (std::vector<std::string>{"before", "before, an hour ahead"}));
}

INSTANTIATE_TEST_SUITE_P(Kv, LockedWrite,
                         testing::Values(Algorithm::kLockParallel, Algorithm::kLockSequential));

}  // namespace wss::kv::test
