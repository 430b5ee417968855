// SPDX-License-Identifier: Apache-2.0
// The timestamps of writes under locks when the clocks of clients and partitions differ.
#include <gtest/gtest.h>

#include <array>

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

TEST_P(LockedWrite, follows_only_the_versions_of_its_own_keys) {
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

TEST_P(LockedWrite, without_a_timestamp_valid_for_all_partitions_is_applied_on_none) {
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

// State between the grant of the locks and the write. Other partitions may have prepared their part.
struct GrantedLock : testing::Test {
    static constexpr uint64_t kTick = uint64_t{1} << Timestamp::kClientBits;
    Cluster cluster{{.partitions = 1}};
    std::unique_ptr<RawClient> client = std::make_unique<RawClient>(cluster.addresses()[0]);
    uint64_t owner = client->transaction(kSecond_ticks);

    void lock(const std::string& key) {
        const wire::KvLock wanted{.owner = owner, .exclusive = true, .keys = {key}};
        ASSERT_EQ(client->ask(wire::KvKind::kLock, 0, wanted), wire::KvStatus::kOk);
        ASSERT_LT(client->named().value, owner);
    }
    wire::KvStatus write(const std::string& key, uint64_t timestamp, uint64_t under) {
        wire::KvPrepare prepare;
        prepare.timestamp = timestamp;
        prepare.owner = under;
        prepare.participants = {0};
        prepare.items.emplace_back().key = key;
        const uint8_t flags = wire::kKvPrepareCommit | (under != 0 ? wire::kKvPrepareUnlock : 0);
        return client->ask(wire::KvKind::kPrepare, flags, prepare);
    }
    void raise_floor() {
        const Timestamp floor{client->transaction(30 * kSecond_ticks)};
        cluster.on(0, [&](Service& service) { service.store().raise_floor(floor); });
    }
};

TEST_F(GrantedLock, admits_its_write_below_a_floor_that_has_risen_since) {
    lock("key");
    raise_floor();
    EXPECT_EQ(write("other", owner + kTick, 0), wire::KvStatus::kTooOld);
    EXPECT_EQ(write("key", owner, owner), wire::KvStatus::kCommitted);
    EXPECT_EQ(write("key", owner, owner), wire::KvStatus::kCommitted) << "a repetition";
    EXPECT_EQ(write("key", owner + kTick, owner), wire::KvStatus::kLockConflict);
}

TEST_F(GrantedLock, admits_no_write_below_the_floor_of_its_grant) {
    raise_floor();
    const wire::KvLock wanted{.owner = owner, .exclusive = true, .keys = {"key"}};
    ASSERT_EQ(client->ask(wire::KvKind::kLock, 0, wanted), wire::KvStatus::kOk);
    EXPECT_GT(client->named().value, owner) << "the client takes a later timestamp";
    EXPECT_EQ(write("key", owner, owner), wire::KvStatus::kTooOld);
}

TEST_F(GrantedLock, admits_its_write_after_the_clock_was_set_back) {
    lock("key");
    cluster.step_clock(0, -3600 * int64_t{kSecond_ticks});
    EXPECT_EQ(write("other", owner + kTick, 0), wire::KvStatus::kTooFarAhead);
    EXPECT_EQ(write("key", owner, owner), wire::KvStatus::kCommitted);
}

// The clock of one of two partitions is stepped to a time at which an earlier client with the same id has
// written.
struct SpentId : testing::Test {
    static constexpr int64_t kDay_us = 24 * 3600 * int64_t{kSecond_ticks};
    Cluster cluster{{.partitions = 2, .clocks_ahead_us = {kDay_us, kDay_us}}};
    uint64_t first = 0, last = 0;               // timestamps of the earlier client
    std::unique_ptr<RawClient> client, beside;  // client of partition 0, client of partition 1

    static wire::KvStatus write(RawClient& by, const std::string& key, uint64_t timestamp) {
        wire::KvPrepare prepare;
        prepare.timestamp = timestamp;
        prepare.participants = {0};
        prepare.items.emplace_back().key = key;
        return by.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit, prepare);
    }
    void SetUp() override {
        uint32_t id = 0;
        {
            RawClient before(cluster.addresses()[0], 2);
            id = before.link().facts().client_id;
            first = before.transaction(0), last = before.transaction(40 * kSecond_ticks);
            ASSERT_EQ(write(before, key_on(0, 2), first), wire::KvStatus::kCommitted);
            ASSERT_EQ(write(before, key_on(0, 2), last), wire::KvStatus::kCommitted);
            cluster.step_clock(0, 0);
            before.send_only(wire::KvKind::kGoodbye, wire::KvDecision{});
            ASSERT_EQ(before.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
        }
        client = std::make_unique<RawClient>(cluster.addresses()[0], 2, 77, id);
        beside = std::make_unique<RawClient>(cluster.addresses()[1], 2, 77, id, 1);
    }
    wire::KvLock wanted(uint32_t partition, uint64_t ticks, bool wait = false) const {
        return {.owner = first + (ticks << Timestamp::kClientBits),
                .exclusive = true,
                .wait = wait,
                .keys = {keys[partition]}};
    }
    static std::string free_key(uint32_t partition) {
        std::string key = "free";
        while (partition_of(fingerprint(key), 2) != partition) key += 'x';
        return key;
    }
    const std::array<std::string, 2> keys{free_key(0), free_key(1)};
};

TEST_F(SpentId, gets_no_lock_for_a_write_that_would_be_refused) {
    cluster.step_clock(0, kDay_us);
    ASSERT_EQ(beside->ask(wire::KvKind::kLock, 0, wanted(1, 20 * kSecond_ticks)), wire::KvStatus::kOk);
    const wire::KvStatus status = client->ask(wire::KvKind::kLock, 0, wanted(0, 20 * kSecond_ticks));
    EXPECT_NE(status, wire::KvStatus::kOk) << "the write on partition 1 is applied nevertheless";
}

TEST_F(SpentId, gets_no_lock_if_it_is_spent_during_the_wait) {
    // The other owner's lock ends when the clock has reached that time.
    RawClient other(cluster.addresses()[0], 2);
    wire::KvLock held = wanted(0, 0);
    held.owner = other.transaction(0);
    ASSERT_EQ(other.ask(wire::KvKind::kLock, 0, held), wire::KvStatus::kOk);
    RecordedCall wait;
    wire::KvLock waited = wanted(0, 0, true);
    waited.owner = client->transaction(0);
    ASSERT_TRUE(client->link().call(wait, wire::KvKind::kLock, 0, waited));
    client->turn_until([&] {
        size_t waiting = 0;
        cluster.on(0, [&](Service& service) { waiting = service.store().locks().waiting(); });
        return waiting == 1;
    });
    cluster.step_clock(0, kDay_us);
    other.send_only(wire::KvKind::kUnlock, held);
    EXPECT_EQ(other.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
    client->turn_until([&] { return wait.here; });
    EXPECT_NE(wait.status, wire::KvStatus::kOk);
}

// The clock is past the earlier client's timestamps, but this client's timestamps are below them.
TEST_F(SpentId, gets_a_lower_bound_for_its_write_with_its_lock) {
    cluster.step_clock(0, kDay_us + 3600 * int64_t{kSecond_ticks});
    ASSERT_EQ(client->ask(wire::KvKind::kLock, 0, wanted(0, -5 * kSecond_ticks)), wire::KvStatus::kOk);
    EXPECT_GE(client->named().value, last);
}

}  // namespace wss::kv::test
