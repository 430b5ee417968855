// SPDX-License-Identifier: Apache-2.0
// Which messages a peer may send after each kind of greeting.
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/kv/store/memory_log.h"
#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

struct Greeting : testing::Test {
    Cluster cluster{{.partitions = 1}};
};

// Partitions greet with nonce 0. They may only inquire about transactions.
TEST_F(Greeting, without_a_nonce_does_not_let_a_peer_write) {
    RawClient peer(cluster.addresses()[0], 1, 0);
    wire::KvPrepare prepare;
    prepare.timestamp = peer.transaction(0);
    prepare.participants = {0};
    prepare.items.emplace_back().key = "key";
    EXPECT_EQ(peer.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit, prepare), wire::KvStatus::kNotLeased);
    wire::KvPutIf put{.timestamp = peer.transaction(1)};
    put.item.key = "key";
    EXPECT_EQ(peer.ask(wire::KvKind::kPutIf, 0, put), wire::KvStatus::kNotLeased);
    for (wire::KvKind kind : {wire::KvKind::kAbort, wire::KvKind::kCommit})
        EXPECT_EQ(peer.ask(kind, 0, wire::KvDecision{.timestamp = peer.transaction(2)}),
                  wire::KvStatus::kNotLeased);
    wire::KvLock lock{.owner = peer.transaction(3), .exclusive = true, .keys = {"key"}};
    EXPECT_EQ(peer.ask(wire::KvKind::kLock, 0, lock), wire::KvStatus::kNotLeased);
    EXPECT_EQ(peer.ask(wire::KvKind::kInquire, 0, wire::KvDecision{.timestamp = peer.transaction(4)}),
              wire::KvStatus::kAborted);
    cluster.on(0, [](Service& service) { EXPECT_EQ(service.store().statistics().keys, 0u); });
}

std::string info(Cluster& cluster, uint32_t partition) {
    std::string text;
    cluster.on(partition, [&](Service& service) { text = service.info_json(); });
    return text;
}

// Returns a number from the partition's report.
uint64_t number(Cluster& cluster, uint32_t partition, const std::string& name) {
    const std::string text = info(cluster, partition);
    const size_t at = text.find("\"" + name + "\":");
    EXPECT_NE(at, std::string::npos) << name << " in " << text;
    return at == std::string::npos ? UINT64_MAX : std::stoull(text.substr(at + name.size() + 3));
}
uint64_t leased(Cluster& cluster, uint32_t partition) {
    return number(cluster, partition, "client_ids_leased");
}

TEST(ClientIds, of_clients_that_close_are_free_at_once) {
    Cluster cluster({.partitions = 2});
    for (int i = 0; i < 3; ++i) {
        auto client = LocalClient::connect(cluster.client_options());
        ASSERT_TRUE(client) << client.status().to_string();
        ASSERT_TRUE(put(**client, {{key_on(0, 2), "value"}, {key_on(1, 2), "value"}}));
        EXPECT_GE(leased(cluster, 0) + leased(cluster, 1), 1u) << "by the first partition";
    }
    for (uint32_t p = 0; p < 2; ++p) {
        bool free = false;
        for (int i = 0; i < 500 && !free; ++i, usleep(10'000)) free = leased(cluster, p) == 0;
        EXPECT_TRUE(free) << info(cluster, p);
    }
}

// If such an id were free at once, the next client with it could not write until the clocks have passed the
// named timestamp.
TEST(ClientIds, whose_timestamps_are_ahead_of_the_clock_are_not_free_at_once) {
    Cluster cluster({.partitions = 1});
    {
        RawClient liar(cluster.addresses()[0]);
        liar.send_only(wire::KvKind::kGoodbye, wire::KvDecision{.timestamp = liar.transaction(50'000'000)});
        EXPECT_EQ(liar.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
    }
    {
        RawClient writer(cluster.addresses()[0]);
        wire::KvPrepare prepare;
        prepare.timestamp = writer.transaction(50'000'000);
        prepare.participants = {0};
        prepare.items.emplace_back().key = "key";
        EXPECT_EQ(writer.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit, prepare),
                  wire::KvStatus::kCommitted);
        writer.send_only(wire::KvKind::kGoodbye, wire::KvDecision{});
        EXPECT_EQ(writer.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
    }
    // This client issued no timestamp ahead of the clock, so its id becomes free. This shows that the ids of
    // the other clients are kept because of their timestamps.
    {
        RawClient honest(cluster.addresses()[0]);
        honest.send_only(wire::KvKind::kGoodbye, wire::KvDecision{.timestamp = honest.transaction(0)});
        EXPECT_EQ(honest.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
        EXPECT_EQ(leased(cluster, 0), 3u);
    }
    // The partition has noticed that all connections are gone before it runs the next request on its thread.
    for (int i = 0; i < 500 && number(cluster, 0, "connections") > 0; ++i) usleep(10'000);
    EXPECT_EQ(number(cluster, 0, "connections"), 0u);
    EXPECT_EQ(leased(cluster, 0), 2u);
}

// A goodbye must name a timestamp of its own client.
TEST(ClientIds, are_returned_only_with_timestamps_of_their_own) {
    Cluster cluster({.partitions = 1});
    RawClient liar(cluster.addresses()[0]);
    liar.send_only(
        wire::KvKind::kGoodbye,
        wire::KvDecision{.timestamp = Timestamp::make(Timestamp{liar.transaction(0)}.ticks(), 77).value});
    liar.turn_until([&] { return !liar.link().ready(); });
}

// A restarted partition has no record of which ids are in use.
TEST(ClientIds, that_belong_to_another_client_are_replaced_by_new_ones) {
    Cluster cluster({.partitions = 2});
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    PutAll write;
    write.items.push_back({.key = key_on(0, 2), .value = "one"});
    write.items.push_back({.key = key_on(1, 2), .value = "one"});
    (*client)->run(write);
    ASSERT_TRUE(write.status) << write.status.to_string();
    const uint32_t id = write.timestamp.client();
    cluster.stop(0);
    cluster.start(0);
    RawClient other(cluster.addresses()[0], 2, 77, id);
    for (auto& item : write.items) item.value = "two";
    // The first write that meets the conflict may fail. The partition then terminates its part under the
    // former id.
    for (int i = 0; i < 2; ++i) (*client)->run(write);
    ASSERT_TRUE(write.status) << write.status.to_string();
    EXPECT_NE(write.timestamp.client(), id);
    EXPECT_EQ(get(**client, {key_on(0, 2), key_on(1, 2)}), (std::vector<std::string>{"two", "two"}));
}

// The next client of the id would issue timestamps that the former one has already used. Its writes would be
// answered like repetitions of the former client's writes, and lost.
TEST(ClientIds, whose_timestamps_are_ahead_of_the_clock_are_not_free_after_a_restart) {
    store::MemoryLog log;
    Cluster cluster({.partitions = 1, .logs = {&log}});
    uint32_t id = 0;
    wire::KvPrepare prepare;
    prepare.participants = {0};
    prepare.items.emplace_back().key = "key";
    {
        RawClient writer(cluster.addresses()[0]);
        id = writer.link().facts().client_id;
        prepare.timestamp = writer.transaction(50'000'000);
        ASSERT_EQ(writer.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit, prepare),
                  wire::KvStatus::kCommitted);
    }
    cluster.stop(0);
    cluster.start(0);
    EXPECT_EQ(leased(cluster, 0), 1u);
    // The client itself may return, and gets the outcome of a repeated write.
    RawClient writer(cluster.addresses()[0], 1, 77, id);
    EXPECT_EQ(writer.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit, prepare),
              wire::KvStatus::kCommitted);
}

}  // namespace wss::kv::test
