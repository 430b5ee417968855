// SPDX-License-Identifier: Apache-2.0
// Scans with values of a table that is larger than memory: an export must have every value.
#include <gtest/gtest.h>

#include <map>

#include "lib/kv/store/memory_log.h"
#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

struct ColdScan : testing::Test {
    static constexpr int kKeys = 400;
    store::MemoryLog log;
    Cluster cluster{{.partitions = 1, .arena_bytes = 1u << 20, .logs = {&log}}};
    std::unique_ptr<LocalClient> client = *LocalClient::connect(cluster.client_options());

    static std::string value_of(int number) {
        return "value " + std::to_string(number) + std::string(5000, 'v');
    }
    void SetUp() override {
        for (int i = 0; i < kKeys; ++i) {
            Status status = put(*client, {{"key" + std::to_string(i), value_of(i)}});
            for (int tries = 0; status.code() == Code::kExhausted && tries < 1000; ++tries)
                status = put(*client, {{"key" + std::to_string(i), value_of(i)}});
            ASSERT_TRUE(status) << status.to_string();
        }
        uint64_t cold = 0;
        cluster.on(0, [&](Service& service) { cold = service.store().statistics().cold_versions; });
        ASSERT_GT(cold, 100u) << "too few for this test";
    }
};

TEST_F(ColdScan, returns_values_that_are_on_disk) {
    Scan scan;
    scan.with_values = true;
    scan.limit = 100;
    std::map<std::string, std::string> found;
    do {
        client->run(scan);
        ASSERT_TRUE(scan.status) << scan.status.to_string();
        for (const Scan::Row& row : scan.rows) found[row.key] = row.value;
    } while (!scan.cursor.empty());
    ASSERT_EQ(found.size(), size_t{kKeys});
    for (int i = 0; i < kKeys; ++i) EXPECT_TRUE(found["key" + std::to_string(i)] == value_of(i)) << i;
}

TEST(Scan, returns_when_a_key_expires) {
    Cluster cluster({.partitions = 1});
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    PutAll request;
    request.items.push_back({.key = "a", .value = "value"});
    request.ttl_ms = 20'000;
    (*client)->run(request);
    ASSERT_TRUE(request.status) << request.status.to_string();
    ASSERT_TRUE(put(**client, {{"b", "value"}}));
    Scan scan;
    (*client)->run(scan);
    ASSERT_EQ(scan.rows.size(), 2u);
    EXPECT_EQ(scan.rows[0].expires.ticks(), request.timestamp.ticks() + 20'000'000);
    EXPECT_TRUE(scan.rows[1].expires.is_none());
}

// A turn of the partition delays all other clients, so each turn must be short.
TEST(Scan, over_deleted_keys_takes_several_turns_and_loses_no_row) {
    Cluster cluster({.partitions = 1, .arena_bytes = 64u << 20});
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    ASSERT_TRUE(put(**client, {{"a", "first"}, {"z", "last"}}));
    constexpr size_t kDeleted = 6200, kAtOnce = 50;
    PutAll deletion;
    for (size_t i = 0; i < kDeleted; ++i) {
        deletion.items.push_back({.key = fmt::format("key{:08}", i), .value = "", .remove = true});
        if (deletion.items.size() < kAtOnce && i + 1 < kDeleted) continue;
        (*client)->run(deletion);
        ASSERT_TRUE(deletion.status) << deletion.status.to_string();
        deletion.items.clear();
    }
    Scan scan;
    scan.limit = 10;
    (*client)->run(scan);
    ASSERT_TRUE(scan.status) << scan.status.to_string();
    EXPECT_TRUE(scan.cursor.empty());
    ASSERT_EQ(scan.rows.size(), 2u);
    EXPECT_EQ(scan.rows[0].key, "a");
    EXPECT_EQ(scan.rows[1].key, "z");
    EXPECT_GE(cluster.counters(0).scans, 4u);
}

TEST_F(ColdScan, of_keys_alone_reads_nothing_from_disk) {
    Scan scan;
    scan.limit = 1000;
    client->run(scan);
    ASSERT_TRUE(scan.status) << scan.status.to_string();
    EXPECT_EQ(scan.rows.size(), size_t{kKeys});
    cluster.on(0, [&](Service& service) { EXPECT_EQ(service.store().statistics().fetched, 0u); });
}

// Clients that do not go on after an empty page would miss the rows behind it.
TEST(Scan, of_a_client_that_ends_at_an_empty_page_also_takes_a_bounded_turn) {
    Cluster cluster({.partitions = 1, .arena_bytes = 64u << 20});
    RawClient client(cluster.addresses()[0]);
    cluster.on(0, [&](Service& service) {
        for (uint64_t i = 0; i <= store::kScanLooksMax; ++i) {
            const std::string key = fmt::format("key{:08}", i);
            const store::Write write{.key = key, .tombstone = true};
            ASSERT_EQ(service.store().put({.timestamp = {client.transaction(i)}, .writes = {&write, 1}}, {}),
                      store::Answer::kOk);
        }
    });
    EXPECT_EQ(client.ask(wire::KvKind::kScan, 0, wire::KvScan{.limit = 10}), wire::KvStatus::kNotReady);
    EXPECT_EQ(client.ask(wire::KvKind::kScan, wire::kKvScanGoesOn, wire::KvScan{.limit = 10}),
              wire::KvStatus::kOk);
}

}  // namespace wss::kv::test
