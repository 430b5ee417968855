// SPDX-License-Identifier: Apache-2.0
// A partition that is down must delay only the transactions that need it.
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/fabric/open.h"
#include "lib/kv/store/memory_log.h"
#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"
#include "tests/unit/kv/store/bench.h"

namespace wss::kv::test {

uint64_t prepared(Cluster& cluster, uint32_t partition) {
    uint64_t count = 0;
    cluster.on(partition, [&](Service& service) { count = service.store().statistics().prepared; });
    return count;
}

bool becomes(const std::function<bool()>& holds) {
    for (int i = 0; i < 2000; ++i) {
        if (holds()) return true;
        usleep(10'000);
    }
    return false;
}

TEST(Termination, leaves_no_transaction_of_a_client_that_gives_up_prepared) {
    Cluster cluster({.partitions = 3});
    kv::Options options = cluster.client_options();
    options.timeout = from_ms(100);
    auto client = LocalClient::connect(options);
    ASSERT_TRUE(client) << client.status().to_string();
    std::vector<std::pair<std::string, std::string>> items;
    for (uint32_t p = 0; p < 3; ++p) items.emplace_back(key_on(p, 3), "value");
    // Connecting may take longer than one request.
    ASSERT_TRUE(becomes([&] { return put(**client, items).is_ok(); }));
    // The partition stands still: its connections exist, but it does not answer.
    cluster.stop(2, [&] {
        for (int i = 0; i < 5; ++i) EXPECT_EQ(put(**client, items).code(), Code::kTimedOut);
        EXPECT_GT(cluster.counters(0).prepares, 1u);
        EXPECT_TRUE(becomes([&] { return prepared(cluster, 0) + prepared(cluster, 1) == 0; }));
    });
    cluster.start(2);
}

class DeadPartition : public testing::Test {
  protected:
    static constexpr uint32_t kMany = 600;
    Cluster cluster{{.partitions = 3, .prepared_max = kMany}};
    std::string key = key_on(0, 3);

    // Prepares on partition 0, by a client that then stays silent.
    static wire::KvStatus prepare(RawClient& client, uint64_t ticks, const std::string& key,
                                  std::vector<uint16_t> participants) {
        wire::KvPrepare body;
        body.timestamp = client.transaction(ticks);
        body.participants = std::move(participants);
        body.items.emplace_back().key = key;
        return client.ask(wire::KvKind::kPrepare, 0, body);
    }
    uint64_t aborted() { return cluster.counters(0).terminated_abort; }
};

TEST_F(DeadPartition, does_not_keep_transactions_of_others_undecided) {
    cluster.stop(2);
    RawClient client(cluster.addresses()[0], 3);
    for (uint32_t i = 0; i + 1 < kMany; ++i)
        ASSERT_EQ(prepare(client, i, key, {0, 2}), wire::KvStatus::kPrepared);
    ASSERT_EQ(prepare(client, kMany, key, {0, 1}), wire::KvStatus::kPrepared);
    EXPECT_TRUE(becomes([&] { return aborted() == 1; }));
    cluster.start(2);
    EXPECT_TRUE(becomes([&] { return aborted() == kMany; }));
}

TEST_F(DeadPartition, does_not_use_up_the_places_of_transactions_of_others) {
    cluster.stop(2);
    RawClient client(cluster.addresses()[0], 3);
    for (uint32_t i = 0; i < kMany; ++i)
        ASSERT_EQ(prepare(client, i, key, {0, 2}), wire::KvStatus::kPrepared);
    auto status = wire::KvStatus::kUnknown;
    uint64_t ticks = kMany;
    EXPECT_TRUE(becomes([&] {
        return (status = prepare(client, ++ticks, key, {0, 1})) == wire::KvStatus::kPrepared;
    })) << wire::to_string(status);
    // The number of undecided transactions is bounded.
    EXPECT_TRUE(becomes([&] {
        return (status = prepare(client, ++ticks, key, {0, 2})) == wire::KvStatus::kNotReady;
    })) << wire::to_string(status);
    cluster.start(2);
    EXPECT_TRUE(becomes([&] { return prepared(cluster, 0) == 0; }));
    EXPECT_EQ(prepare(client, ++ticks, key, {0, 2}), wire::KvStatus::kPrepared);
}

// The partition is connected and answers pings, but requests that need its disk are never answered.
class HangingDisk : public DeadPartition {
  protected:
    static constexpr uint32_t kInquiries = 256;  // the number of concurrent inquiries
    store::MemoryLog first, second, hanging{store::MemoryLog::Persist::kByHand};
    Cluster stores{{.partitions = 3, .logs = {&first, &second, &hanging}, .prepared_max = kInquiries + 1}};
};

TEST_F(HangingDisk, does_not_keep_transactions_of_others_undecided) {
    RawClient client(stores.addresses()[0], 3);
    for (uint32_t i = 0; i < kInquiries; ++i)
        ASSERT_EQ(prepare(client, i, key, {0, 2}), wire::KvStatus::kPrepared);
    ASSERT_EQ(prepare(client, kMany, key, {0, 1}), wire::KvStatus::kPrepared);
    EXPECT_TRUE(becomes([&] { return stores.counters(0).terminated_abort == 1; }));
}

// An inquiry that ends must not be repeated in its place before other inquiries have had a turn.
TEST_F(HangingDisk, leaves_places_for_inquiries_that_were_not_sent_yet) {
    RawClient client(stores.addresses()[0], 3);
    for (uint32_t i = 0; i < kInquiries; ++i) {
        ASSERT_EQ(prepare(client, i, key, {0, 2}), wire::KvStatus::kPrepared);
        usleep(12'000);
    }
    ASSERT_EQ(prepare(client, kMany, key, {0, 1}), wire::KvStatus::kPrepared);
    EXPECT_TRUE(becomes([&] { return stores.counters(0).terminated_abort == 1; }));
}

TEST_F(HangingDisk, does_not_let_undecided_transactions_grow_without_bound) {
    RawClient client(stores.addresses()[0], 3);
    uint64_t ticks = 0;
    const uint64_t bound = 2 * (kInquiries + 1);
    auto status = wire::KvStatus::kUnknown;
    const bool refused = becomes([&] {
        for (int i = 0; i < 64; ++i) status = prepare(client, ++ticks, key, {0, 2});
        return prepared(stores, 0) == bound && status == wire::KvStatus::kLockConflict;
    });
    EXPECT_TRUE(refused) << prepared(stores, 0) << ' ' << wire::to_string(status);
    EXPECT_LE(prepared(stores, 0), bound);
}

// The index memory of the partition that has committed is nearly full, so it forgets as much as it may.
TEST(Termination, after_a_cut_of_20_s_commits_transactions_that_the_other_partition_has_committed) {
    constexpr uint64_t kHeap = 256u << 10;
    Cluster cluster({.partitions = 2, .terminate_after = from_s(2), .heap_limit = kHeap});
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    PutAll half;
    half.items = {{.key = key_on(0, 2), .value = "value"}, {.key = key_on(1, 2), .value = "value"}};
    half.fault.skip_commit = 1;
    (*client)->run(half);
    ASSERT_EQ(prepared(cluster, 0), 1u);
    ASSERT_EQ(prepared(cluster, 1), 0u);
    cluster.on(0, [&](Service&) {
        uint64_t used = 0;
        for (int i = 0; used <= kHeap / 5 * 4 && i < 100'000; ++i) {
            std::string key = "other" + std::to_string(i);
            while (partition_of(fingerprint(key), 2) != 1) key += 'x';
            ASSERT_TRUE(put(**client, {{key, "value"}}));
            cluster.on(1, [&](Service& service) { used = service.store().statistics().heap_used; });
        }
        cluster.pass(1, from_s(20));
        EXPECT_TRUE(becomes([&] {
            bool has_forgotten = false;
            cluster.on(1,
                       [&](Service& service) { has_forgotten = service.store().floor() > half.timestamp; });
            return has_forgotten;
        }));
    });
    EXPECT_TRUE(becomes([&] { return prepared(cluster, 0) == 0; }));
    EXPECT_EQ(cluster.counters(0).terminated_commit, 1u);
    EXPECT_EQ(cluster.counters(0).terminated_abort, 0u);
}

// A log with one prepared transaction, whose loading takes long.
class SlowStart final : public store::Log {
  public:
    explicit SlowStart(store::HandClock& clock) : clock_(clock) {}
    Status load(store::LogVisitor& visitor) override {
        clock_.pass(from_s(60));
        return visitor.on_transaction(
            {.timestamp = Timestamp::make(1'000'000, 7), .participants = {"\0\0\0\1", 4}, .held = {}});
    }
    void append(store::LogBatch, uint64_t) override {}
    void fetch(std::string_view, Timestamp, uint64_t) override {}
    Result<bool> find_transaction(Timestamp, store::LoggedTransaction&) override { return false; }
    size_t poll(std::vector<store::LogCompletion>&) override { return 0; }

  private:
    store::HandClock& clock_;
};

TEST(Termination, of_recovered_transactions_gets_its_time_however_long_the_start_took) {
    store::HandClock clock;
    SystemWallClock wall;
    SlowStart log(clock);
    reactor::Reactor reactor{clock};
    const auto address = *fabric::Address::parse("tcp://127.0.0.1:0", kDefaultPort);
    const auto fabric = std::move(*fabric::open(address));
    ServiceOptions options;
    options.partitions = {"tcp://127.0.0.1:1", "tcp://127.0.0.1:1"};
    options.arena_bytes = 1u << 20;
    options.store.durability = store::Durability::kSync;
    auto service = std::move(*Service::create(reactor, {fabric.get()}, wall, &log, options));
    const auto run = [&](Nanoseconds time) {
        for (const Nanoseconds until = clock.now() + time; clock.now() < until; clock.pass(from_ms(10)))
            reactor.step();
    };
    clock.pass(from_s(60));  // the other partitions of this process are loaded
    run(from_s(9));
    EXPECT_FALSE(service->ready()) << "the other partition was not asked for long enough";
    run(from_s(2));
    EXPECT_TRUE(service->ready());
    bool stopped = false;
    service->stop([&] { stopped = true; });
    for (int i = 0; i < 1000 && !stopped; ++i) run(from_ms(10));
    EXPECT_TRUE(stopped);
}

}  // namespace wss::kv::test
