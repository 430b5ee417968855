// SPDX-License-Identifier: Apache-2.0
// Transactions with conditions, over several partitions.
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "lib/kv/client/counter.h"
#include "lib/kv/store/memory_log.h"
#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {
namespace {

constexpr uint32_t kPartitions = 3;

bool becomes(const std::function<bool()>& holds) {
    for (int i = 0; i < 2000; ++i) {
        if (holds()) return true;
        usleep(10'000);
    }
    return false;
}

std::unique_ptr<LocalClient> connect(const kv::Options& options) {
    auto client = LocalClient::connect(options);
    EXPECT_TRUE(client) << client.status().to_string();
    return std::move(*client);
}

struct ConditionalTransaction : testing::Test {
    Cluster cluster{{.partitions = kPartitions}};
    std::unique_ptr<LocalClient> client = connect(cluster.client_options());
    const std::string a = key_on(0, kPartitions), b = key_on(1, kPartitions), c = key_on(2, kPartitions);

    Timestamp write(const std::string& key, const std::string& value) {
        PutAll put;
        put.items.push_back({key, value});
        client->run(put);
        EXPECT_TRUE(put.status) << put.status.to_string();
        return put.timestamp;
    }
    uint64_t prepared(uint32_t partition) {
        uint64_t count = 0;
        cluster.on(partition, [&](Service& service) { count = service.store().statistics().prepared; });
        return count;
    }
    std::string value(const std::string& key) { return get(*client, {key})[0]; }
};

TEST_F(ConditionalTransaction, is_written_if_all_conditions_hold_and_otherwise_nowhere) {
    const Timestamp at = write(a, "1");
    PutAll put;
    put.items = {{b, "2"}, {c, "2"}};
    put.conditions = {{b, {}}, {a, {at.value - 1}}};
    client->run(put);
    EXPECT_EQ(put.status.code(), Code::kRefused);
    EXPECT_FALSE(put.outcome_unknown);
    ASSERT_TRUE(put.failed_condition);
    EXPECT_EQ(*put.failed_condition, 1u);
    EXPECT_EQ(put.present, at);
    EXPECT_EQ(value(b) + value(c), "(none)(none)");
    for (uint32_t p = 0; p < kPartitions; ++p) EXPECT_EQ(prepared(p), 0u);
    put.conditions[1].expected = put.present;
    client->run(put);
    EXPECT_TRUE(put.status) << put.status.to_string();
    EXPECT_FALSE(put.failed_condition);
    EXPECT_EQ(value(b) + value(c), "22");
}

TEST_F(ConditionalTransaction, reports_an_absent_key) {
    PutAll put;
    put.items = {{b, "2"}};
    put.conditions = {{a, {1}}};
    client->run(put);
    EXPECT_TRUE(put.failed_condition);
    EXPECT_TRUE(put.present.is_none());
}

TEST_F(ConditionalTransaction, acts_as_a_watch_if_its_conditions_are_the_versions_that_it_read) {
    write(a, "1");
    GetAll read;
    read.items.resize(2);
    read.items[0].key = a;
    read.items[1].key = b;
    client->run(read);
    PutAll put;
    put.items = {{c, "2"}};
    put.expect_unchanged(read);
    client->run(put);
    EXPECT_TRUE(put.status) << put.status.to_string();
    write(b, "3");
    client->run(put);
    EXPECT_EQ(put.status.code(), Code::kRefused);
    ASSERT_TRUE(put.failed_condition);
    EXPECT_EQ(put.conditions[*put.failed_condition].key, b);
}

TEST_F(ConditionalTransaction, without_writes_checks_its_conditions_together) {
    const Timestamp at = write(a, "1");
    PutAll check;
    check.conditions = {{a, at}, {b, {}}};
    client->run(check);
    EXPECT_TRUE(check.status) << check.status.to_string();
    write(b, "2");
    client->run(check);
    EXPECT_EQ(check.status.code(), Code::kRefused);
    for (uint32_t p = 0; p < kPartitions; ++p) EXPECT_TRUE(becomes([&] { return prepared(p) == 0; }));
}

TEST_F(ConditionalTransaction, with_two_conditions_on_one_key_or_with_too_long_a_key_is_invalid) {
    PutAll put;
    put.items = {{a, "1"}};
    put.conditions = {{b, {}}, {b, {1}}};
    client->run(put);
    EXPECT_EQ(put.status.code(), Code::kInvalid);
    put.conditions = {{std::string(kKeyMax + 1, 'x'), {}}};
    client->run(put);
    EXPECT_EQ(put.status.code(), Code::kInvalid);
}

TEST_F(ConditionalTransaction, is_atomic_in_every_algorithm) {
    for (auto algorithm : {Algorithm::kRampSmall, Algorithm::kRampHybrid, Algorithm::kLockSequential,
                           Algorithm::kLockParallel, Algorithm::kNone}) {
        kv::Options options = cluster.client_options();
        options.algorithm = algorithm;
        auto other = connect(options);
        const Timestamp at = write(a, "1");
        PutAll put;
        put.items = {{a, "new"}, {b, "new"}};
        put.conditions = {{a, at}, {c, {1}}};
        other->run(put);
        EXPECT_EQ(put.status.code(), Code::kRefused) << to_string(algorithm);
        EXPECT_EQ(value(a), "1") << to_string(algorithm);
        put.conditions[1].expected = {};
        other->run(put);
        EXPECT_TRUE(put.status) << to_string(algorithm) << ": " << put.status.to_string();
        EXPECT_EQ(value(a) + value(b), "newnew") << to_string(algorithm);
    }
}

// Each of two transactions writes one key on condition that both are unchanged. At most one may commit.
TEST_F(ConditionalTransaction, that_crosses_another_one_does_not_commit_if_the_other_does) {
    std::atomic<uint64_t> wins{0}, skews{0};
    constexpr int kRounds = 100;
    std::vector<std::unique_ptr<LocalClient>> clients;
    for (int i = 0; i < 2; ++i) clients.push_back(connect(cluster.client_options()));
    for (int round = 0; round < kRounds; ++round) {
        const Timestamp at_a = write(a, "old"), at_b = write(b, "old");
        std::atomic<int> won{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 2; ++i)
            threads.emplace_back([&, i] {
                PutAll put;
                put.items = {{i == 0 ? a : b, "new"}};
                put.conditions = {{a, at_a}, {b, at_b}};
                clients[static_cast<size_t>(i)]->run(put);
                won += put.status.is_ok();
                EXPECT_TRUE(put.status || put.failed_condition) << put.status.to_string();
            });
        for (auto& thread : threads) thread.join();
        wins += static_cast<uint64_t>(won.load());
        skews += won == 2;
    }
    EXPECT_EQ(skews, 0u);
    EXPECT_EQ(wins, kRounds);
}

TEST_F(ConditionalTransaction, of_a_dead_client_is_terminated_and_its_keys_become_free) {
    PutAll half;
    half.items = {{a, "half"}};
    half.conditions = {{b, {}}, {c, {}}};
    half.fault.skip_commit = UINT64_MAX;
    client->run(half);
    write(b, "free");  // waits for the termination
    EXPECT_TRUE(becomes([&] { return value(a) == "half"; }));
    PutAll dead;
    dead.items = {{a, "dead"}};
    dead.conditions = {{b, {1}}, {c, {}}};
    dead.fault.die_after_prepare = true;
    client->run(dead);
    write(c, "free");
    EXPECT_EQ(value(a), "half") << "the condition on b did not hold";
}

TEST_F(ConditionalTransaction, that_waits_for_a_held_key_continues_when_the_key_is_free) {
    PutAll half;
    half.items = {{a, "half"}};
    half.conditions = {{b, {}}};
    half.fault.die_after_prepare = true;
    client->run(half);
    PutAll put;
    put.items = {{b, "next"}};
    put.conditions = {{b, {}}};
    client->run(put);
    EXPECT_TRUE(put.status) << put.status.to_string();
}

// --- counters

TEST_F(ConditionalTransaction, counts_for_many_clients_without_losing_an_increment) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
        threads.emplace_back([&] {
            auto mine = connect(cluster.client_options());
            for (int n = 0; n < 50; ++n) {
                Increment increment{.key = "counter"};
                run(*mine, increment);
                EXPECT_TRUE(increment.status) << increment.status.to_string();
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(value("counter"), "150");
}

TEST_F(ConditionalTransaction, refuses_to_count_beyond_the_end_or_from_a_value_that_is_not_a_number) {
    write("counter", std::to_string(INT64_MAX - 1));
    Increment increment{.key = "counter"};
    run(*client, increment);
    EXPECT_TRUE(increment.status) << increment.status.to_string();
    EXPECT_EQ(increment.value, INT64_MAX);
    run(*client, increment);
    EXPECT_EQ(increment.status.code(), Code::kExhausted);
    EXPECT_TRUE(increment.overflow);
    EXPECT_EQ(value("counter"), std::to_string(INT64_MAX));
    for (const char* text : {"", "12x", " 1", "9223372036854775808", "1.5"}) {
        write("text", text);
        Increment none{.key = "text"};
        run(*client, none);
        EXPECT_EQ(none.status.code(), Code::kInvalid) << text;
        EXPECT_EQ(value("text"), text);
    }
}

TEST_F(ConditionalTransaction, keeps_the_expiry_of_a_counter) {
    PutAll put;
    put.items = {{"counter", "5"}};
    put.ttl_ms = 3'600'000;
    client->run(put);
    Increment increment{.key = "counter", .delta = -7};
    run(*client, increment);
    EXPECT_EQ(increment.value, -2);
    GetAll get;
    get.items.emplace_back().key = "counter";
    client->run(get);
    EXPECT_EQ(get.items[0].expires.ticks(), put.timestamp.ticks() + 3'600'000'000);
}

// --- single messages

struct ConditionalPrepare : testing::Test {
    Cluster cluster{{.partitions = 2, .terminate_after = from_s(3600)}};
    RawClient client{cluster.addresses()[0], 2};
    const std::string mine = key_on(0, 2), others = key_on(1, 2);

    wire::KvStatus prepare(uint64_t timestamp, const std::string& key, uint64_t expected,
                           uint8_t flags = wire::kKvPrepareIf, std::vector<uint16_t> participants = {0, 1}) {
        wire::KvPrepare prepare;
        prepare.timestamp = timestamp;
        prepare.participants = std::move(participants);
        prepare.items.emplace_back().key = mine;
        prepare.conditions.push_back({.key = key, .expected = expected});
        return client.ask(wire::KvKind::kPrepare, flags, prepare);
    }
    wire::KvStatus decide(wire::KvKind kind, uint64_t timestamp) {
        return client.ask(kind, 0, wire::KvDecision{.timestamp = timestamp});
    }
};

TEST_F(ConditionalPrepare, that_is_repeated_gets_the_same_answer_whatever_was_decided) {
    const uint64_t first = client.transaction(1), second = client.transaction(2);
    ASSERT_EQ(prepare(first, mine, 0), wire::KvStatus::kPrepared);
    EXPECT_EQ(prepare(first, mine, 0), wire::KvStatus::kPrepared);
    ASSERT_EQ(decide(wire::KvKind::kCommit, first), wire::KvStatus::kCommitted);
    EXPECT_EQ(prepare(first, mine, 0), wire::KvStatus::kPrepared) << "its own version does not conflict";
    ASSERT_EQ(prepare(second, mine, first), wire::KvStatus::kPrepared);
    ASSERT_EQ(decide(wire::KvKind::kAbort, second), wire::KvStatus::kAborted);
    EXPECT_EQ(prepare(second, mine, first), wire::KvStatus::kAborted);
}

TEST_F(ConditionalPrepare, with_a_false_condition_leaves_no_trace) {
    const uint64_t first = client.transaction(1);
    EXPECT_EQ(prepare(first, mine, 7), wire::KvStatus::kConditionFailed);
    EXPECT_EQ(prepare(first, mine, 0), wire::KvStatus::kPrepared);
}

TEST_F(ConditionalPrepare, of_a_key_of_another_partition_is_refused) {
    EXPECT_EQ(prepare(client.transaction(1), others, 0), wire::KvStatus::kWrongPartition);
}

TEST_F(ConditionalPrepare, under_locks_or_on_several_partitions_at_once_is_malformed) {
    for (const uint8_t flag : {wire::kKvPrepareUnlock, wire::kKvPrepareCommit})
        EXPECT_EQ(prepare(client.transaction(1), mine, 0, wire::kKvPrepareIf | flag),
                  wire::KvStatus::kMalformed);
    EXPECT_EQ(prepare(client.transaction(2), mine, 0, wire::kKvPrepareIf | wire::kKvPrepareCommit, {0}),
              wire::KvStatus::kCommitted);
}

TEST_F(ConditionalPrepare, is_not_overtaken_by_a_write_under_locks) {
    const uint64_t first = client.transaction(1), owner = client.transaction(2);
    ASSERT_EQ(
        client.ask(wire::KvKind::kLock, 0, wire::KvLock{.owner = owner, .exclusive = true, .keys = {mine}}),
        wire::KvStatus::kOk);
    EXPECT_EQ(prepare(first, mine, 0), wire::KvStatus::kLockConflict);
    client.send_only(wire::KvKind::kUnlock, wire::KvLock{.owner = owner, .keys = {}});
    ASSERT_EQ(prepare(first, mine, 0), wire::KvStatus::kPrepared);
    EXPECT_EQ(
        client.ask(wire::KvKind::kLock, 0, wire::KvLock{.owner = owner, .exclusive = true, .keys = {mine}}),
        wire::KvStatus::kLockConflict);
}

// A restarted partition finds the prepare in the log, and holds its keys until the other partition has
// replied.
TEST(ConditionalPrepareInTheLog, holds_its_keys_after_a_restart) {
    store::MemoryLog first, second;
    Cluster cluster({.partitions = 2, .logs = {&first, &second}});
    const std::string mine = key_on(0, 2), others = key_on(1, 2);
    auto client = connect(cluster.client_options());
    PutAll half;
    half.items = {{others, "half"}};
    half.conditions = {{mine, {}}};
    half.fault.skip_commit = UINT64_MAX;
    client->run(half);
    cluster.stop(0);
    cluster.start(0);
    EXPECT_TRUE(becomes([&] { return put(*client, {{mine, "after"}}).is_ok(); }));
    EXPECT_TRUE(becomes([&] { return get(*client, {others})[0] == "half"; }));
}

}  // namespace
}  // namespace wss::kv::test
