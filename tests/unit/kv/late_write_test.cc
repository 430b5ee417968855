// SPDX-License-Identifier: Apache-2.0
// Writes under locks that reach a partition after the lease of a lock has expired.
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

constexpr int64_t kSecond_us = 1'000'000;
// Longer than the lease of a lock.
constexpr Nanoseconds kStall = from_s(6);

struct Clocks {
    int64_t first_s = 0, second_s = 0;  // offsets of the partitions' clocks
    int64_t step_s = 0;                 // offset to which the second clock is stepped during the stall
};

void PrintTo(const Clocks& clocks, std::ostream* out) {
    *out << clocks.first_s << " s, " << clocks.second_s << " s, stepped to " << clocks.step_s << " s";
}

using Setting = std::tuple<Algorithm, Algorithm, Clocks>;

// The client's lock requests arrive. Its write arrives only after the second partition has revoked the lock
// and another client has written the key.
class LateWrite : public testing::TestWithParam<Setting> {
  protected:
    static std::unique_ptr<LocalClient> connect(const Cluster& cluster, Algorithm algorithm) {
        kv::Options options = cluster.client_options();
        options.algorithm = algorithm;
        options.timeout = from_s(4);
        auto client = LocalClient::connect(options);
        EXPECT_TRUE(client) << client.status().to_string();
        return std::move(*client);
    }
    static size_t held(Cluster& cluster) {
        size_t held = 0;
        for (uint32_t p : {0u, 1u})
            cluster.on(p, [&](Service& service) { held += service.store().locks().held(); });
        return held;
    }
    // Lets the client send while both partitions stand still: its messages have been sent, but no reply has
    // arrived.
    static void send(Cluster& cluster, LocalClient& client) {
        cluster.on(0, [&](Service&) {
            cluster.on(1, [&](Service&) {
                for (int i = 0; i < 50; ++i) client.poll();
            });
        });
    }
    // The last reply stays unread. Sequential locking takes one lock after the other, as in the paper.
    static void take_locks(Cluster& cluster, LocalClient& client, PutAll& write, bool sequential) {
        cluster.on(0, [&](Service&) {
            cluster.on(1, [&](Service&) {
                client.submit(write);
                for (int i = 0; i < 50; ++i) client.poll();
            });
        });
        const Nanoseconds limit = SystemClock().now() + from_s(20);
        const auto wait_for = [&](size_t locks) {
            while (held(cluster) < locks && SystemClock().now() < limit) {
            }
            ASSERT_EQ(held(cluster), locks);
        };
        if (sequential) {
            wait_for(1);
            send(cluster, client);
        }
        wait_for(2);
    }
};

TEST_P(LateWrite, is_applied_as_a_whole_or_not_at_all) {
    const auto& [algorithm, rival, clocks] = GetParam();
    Cluster cluster(
        {.partitions = 2, .clocks_ahead_us = {clocks.first_s * kSecond_us, clocks.second_s * kSecond_us}});
    const std::vector<std::string> keys{key_on(0, 2), key_on(1, 2)};
    auto client = connect(cluster, algorithm), other = connect(cluster, rival);
    ASSERT_EQ(get(*client, keys), (std::vector<std::string>{"(none)", "(none)"}));
    PutAll late;
    late.items = {{.key = keys[0], .value = "late"}, {.key = keys[1], .value = "late"}};
    bool is_over = false;
    late.context = &is_over;
    late.done = [](Request& request) noexcept { *static_cast<bool*>(request.context) = true; };
    take_locks(cluster, *client, late, algorithm == Algorithm::kLockSequential);
    cluster.pass(1, kStall);
    if (clocks.step_s != clocks.second_s) cluster.step_clock(1, clocks.step_s * kSecond_us);
    const bool was_written = put(*other, {{keys[1], "rival"}}).is_ok();
    while (!is_over) client->turn();
    send(cluster, *client);  // sends its unlock requests
    const std::vector<std::string> values = get(*other, keys);
    EXPECT_EQ(values[0] == "late", values[1] == "late")
        << values[0] << " and " << values[1] << ": " << late.status.to_string();
    EXPECT_EQ(late.status.is_ok(), values[0] == "late") << late.status.to_string();
    EXPECT_FALSE(late.outcome_unknown) << late.status.to_string();
    if (values[1] != "late") {
        EXPECT_EQ(values[1], was_written ? "rival" : "(none)");
    }
}

INSTANTIATE_TEST_SUITE_P(
    Kv, LateWrite,
    testing::Combine(testing::Values(Algorithm::kLockParallel, Algorithm::kLockSequential),
                     testing::Values(Algorithm::kLockParallel, Algorithm::kRampFast),
                     testing::Values(Clocks{}, Clocks{20, 0, 0}, Clocks{0, 20, 20}, Clocks{-20, 0, 0},
                                     Clocks{0, -20, -20}, Clocks{0, 0, 30}, Clocks{0, 0, -30},
                                     Clocks{0, 0, 3600}, Clocks{0, 0, -3600}, Clocks{90, 0, 0},
                                     Clocks{0, 90, 0})));

// The same situation with single messages.
struct LatePrepare : testing::TestWithParam<Clocks> {
    Cluster cluster{{.partitions = 2,
                     .terminate_after = from_s(3600),
                     .clocks_ahead_us = {GetParam().first_s * kSecond_us, GetParam().second_s* kSecond_us}}};
    RawClient client{cluster.addresses()[0], 2}, other{cluster.addresses()[0], 2};
    const std::string key = key_on(0, 2);
    const uint64_t owner = client.transaction(1);

    static wire::KvStatus lock(RawClient& by, uint64_t owner, const std::string& key) {
        return by.ask(wire::KvKind::kLock, 0, wire::KvLock{.owner = owner, .exclusive = true, .keys = {key}});
    }
    static wire::KvStatus write(RawClient& by, uint64_t timestamp, uint64_t owner, const std::string& key,
                                std::vector<uint16_t> participants, uint8_t flags) {
        wire::KvPrepare prepare;
        prepare.timestamp = timestamp;
        prepare.owner = owner;
        prepare.participants = std::move(participants);
        prepare.items.emplace_back().key = key;
        return by.ask(wire::KvKind::kPrepare, flags, prepare);
    }
    wire::KvStatus decide(wire::KvKind kind, uint64_t timestamp) {
        return client.ask(kind, 0, wire::KvDecision{.timestamp = timestamp});
    }
    // Lets the lease expire and steps the partition's clock.
    void stall() {
        cluster.pass(0, kStall);
        cluster.step_clock(0, GetParam().step_s * kSecond_us);
    }
};

TEST_P(LatePrepare, is_refused_without_a_trace) {
    ASSERT_EQ(lock(client, owner, key), wire::KvStatus::kOk);
    stall();
    EXPECT_EQ(write(client, client.transaction(2), owner, key, {0, 1}, wire::kKvPrepareUnlock),
              wire::KvStatus::kLockConflict);
    uint64_t prepared = 1;
    cluster.on(0, [&](Service& service) { prepared = service.store().statistics().prepared; });
    EXPECT_EQ(prepared, 0u);
}

TEST_P(LatePrepare, is_refused_even_if_no_client_has_taken_the_lock_since) {
    ASSERT_EQ(lock(client, owner, key), wire::KvStatus::kOk);
    stall();
    EXPECT_EQ(write(client, client.transaction(2), owner, key, {0},
                    wire::kKvPrepareCommit | wire::kKvPrepareUnlock),
              wire::KvStatus::kLockConflict);
}

// A write that was prepared under a lock stays protected, however late its commit arrives.
TEST_P(LatePrepare, a_prepare_in_time_excludes_others_until_it_is_decided) {
    ASSERT_EQ(lock(client, owner, key), wire::KvStatus::kOk);
    const uint64_t timestamp = client.transaction(2);
    ASSERT_EQ(write(client, timestamp, owner, key, {0, 1}, wire::kKvPrepareUnlock),
              wire::KvStatus::kPrepared);
    stall();
    EXPECT_NE(lock(other, other.transaction(3), key), wire::KvStatus::kOk);
    EXPECT_EQ(decide(wire::KvKind::kCommit, timestamp), wire::KvStatus::kCommitted);
    size_t found = 0;
    cluster.on(0, [&](Service& service) { found = service.store().get(key).version.timestamp.value; });
    EXPECT_EQ(found, timestamp);
}

// A partition cannot determine whether the others prepare their part.
TEST_P(LatePrepare, of_several_partitions_is_not_committed_at_once_under_locks) {
    ASSERT_EQ(lock(client, owner, key), wire::KvStatus::kOk);
    EXPECT_EQ(write(client, client.transaction(2), owner, key, {0, 1},
                    wire::kKvPrepareCommit | wire::kKvPrepareUnlock),
              wire::KvStatus::kMalformed);
}

INSTANTIATE_TEST_SUITE_P(Kv, LatePrepare,
                         testing::Values(Clocks{}, Clocks{.step_s = 40}, Clocks{.step_s = -40},
                                         Clocks{.step_s = 3600}, Clocks{.step_s = -3600},
                                         Clocks{.first_s = 90, .step_s = 90},
                                         Clocks{.first_s = -90, .step_s = -90}));

}  // namespace wss::kv::test
