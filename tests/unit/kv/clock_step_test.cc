// SPDX-License-Identifier: Apache-2.0
// The wall clock of a partition or of a client is stepped while they are connected.
#include <gtest/gtest.h>

#include <thread>

#include "lib/kv/client/session.h"
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

TEST(TooOld, names_the_conflicting_version_and_not_the_clock) {
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

TEST(ClockStep, of_a_partition_does_not_end_the_writes_of_connected_clients) {
    Cluster cluster({.partitions = 2, .clocks_ahead_us = {0, kHour_us}});
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    const std::string key = key_on(1, 2);
    ASSERT_TRUE(put(**client, {{key_on(0, 2), "before"}}));
    (void)get(**client, {key});  // connects
    cluster.step_clock(1, 0);
    Status status = put(**client, {{key, "after"}});
    EXPECT_TRUE(status) << status.to_string();
    PutIf condition;
    condition.key = key_on(1, 2) + "new";
    while (partition_of(fingerprint(condition.key), 2) != 1) condition.key += 'x';
    (*client)->run(condition);
    EXPECT_TRUE(condition.status) << condition.status.to_string();
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

// Without an exception, such keys could be neither written nor deleted until the clock reaches their
// versions.
TEST(ClockStep, back_leaves_keys_writable_that_were_written_while_a_partition_was_ahead) {
    Cluster cluster({.partitions = 1, .clocks_ahead_us = {kHour_us}});
    {
        auto ahead = LocalClient::connect(cluster.client_options());
        ASSERT_TRUE(ahead) << ahead.status().to_string();
        ASSERT_TRUE(put(**ahead, {{"key", "ahead"}}));
    }
    cluster.step_clock(0, 0);
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    Status status = put(**client, {{"key", "after"}});
    EXPECT_TRUE(status) << status.to_string();
    // Other keys do not get as far ahead.
    EXPECT_FALSE(put(**client, {{"key", "both"}, {"other", "both"}}));
    GetAll read;
    read.items.emplace_back().key = "key";
    (*client)->run(read);
    EXPECT_EQ(read.items[0].value, "after");
    PutIf condition;
    condition.key = "key";
    condition.value = "conditional";
    condition.condition = PutIf::Condition::kTimestamp;
    condition.expected = read.items[0].timestamp;
    (*client)->run(condition);
    EXPECT_TRUE(condition.status) << condition.status.to_string();
    PutAll deletion;
    deletion.items.push_back({"key", "", true});
    (*client)->run(deletion);
    EXPECT_TRUE(deletion.status) << deletion.status.to_string();
}

// The client's timestamps increase, so that for the second key is also later than that for the first.
TEST(ClockStep, back_leaves_keys_that_were_written_ahead_writable_in_any_order) {
    Cluster cluster({.partitions = 1, .clocks_ahead_us = {kHour_us}});
    {
        RawClient ahead(cluster.addresses()[0]);
        const auto write = [&](uint64_t ticks, const std::string& key) {
            return ahead.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit,
                             write_of(ahead.transaction(ticks), key));
        };
        ASSERT_EQ(write(0, "early"), wire::KvStatus::kCommitted);
        ASSERT_EQ(write(20'000'000, "late"), wire::KvStatus::kCommitted);
    }
    cluster.step_clock(0, 0);
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    for (const std::string key : {"late", "early", "late"}) {
        Status status = put(**client, {{key, "after"}});
        EXPECT_TRUE(status) << key << ": " << status.to_string();
    }
    Status both = put(**client, {{"early", "both"}, {"late", "both"}});
    EXPECT_TRUE(both) << both.to_string();
}

// The other partition has refused its part as too far ahead, and the client has died.
TEST(ClockStep, back_does_not_leave_transactions_undecided) {
    Cluster cluster({.partitions = 2, .clocks_ahead_us = {kHour_us, 0}});
    RawClient client(cluster.addresses()[0], 2);
    wire::KvPrepare prepare = write_of(client.transaction(0), "");
    const std::string key = key_on(0, 2);
    prepare.items[0].key = key;
    prepare.participants = {0, 1};
    ASSERT_EQ(client.ask(wire::KvKind::kPrepare, 0, prepare), wire::KvStatus::kPrepared);
    cluster.step_clock(0, 0);
    SystemClock clock;
    const Nanoseconds limit = clock.now() + from_s(20);
    uint64_t prepared = 1;
    while (prepared > 0 && clock.now() < limit) {
        cluster.on(0, [&](Service& service) { prepared = service.store().statistics().prepared; });
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(prepared, 0u);
}

// Timestamps that follow a version must stay close to it.
TEST(ClockStep, back_does_not_allow_timestamps_far_beyond_the_version_of_a_key) {
    Cluster cluster({.partitions = 1, .clocks_ahead_us = {kHour_us}});
    RawClient client(cluster.addresses()[0]);
    const auto write = [&](uint64_t ticks) {
        return client.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit,
                          write_of(client.transaction(ticks), "key"));
    };
    ASSERT_EQ(write(0), wire::KvStatus::kCommitted);
    cluster.step_clock(0, 0);
    EXPECT_EQ(write(kHour_us), wire::KvStatus::kTooFarAhead);
    EXPECT_EQ(write(kNextVersion_ticks + 1'000'000), wire::KvStatus::kTooFarAhead);
    EXPECT_EQ(write(1000), wire::KvStatus::kCommitted);
}

// A session whose wall clock the test sets.
struct SteppedSession {
    explicit SteppedSession(Cluster& cluster) {
        auto where = fabric::Address::parse(cluster.addresses()[0], kDefaultPort);
        fabric = std::move(*fabric::open(*where));
        lane = std::move(*Lane::create(reactor, *fabric));
        session = std::make_unique<ClientSession>(*lane, wall, Random::entropy(), cluster.client_options());
        Status why(Code::kTimedOut, "");
        session->start([&](const Status& status) { why = status; });
        turn_until([&] { return why.is_ok(); });
    }
    ~SteppedSession() {
        session->close();
        turn_until([&] { return session->closed(); });
    }
    template <typename Condition>
    void turn_until(Condition holds) {
        const Nanoseconds limit = clock.now() + from_s(20);
        while (!holds() && clock.now() < limit) reactor.turn();
        EXPECT_TRUE(holds());
    }
    Status put(const std::string& key) {
        PutAll request;
        request.items.push_back({.key = key, .value = "value"});
        bool over = false;
        request.context = &over;
        request.done = [](Request& finished) noexcept { *static_cast<bool*>(finished.context) = true; };
        session->submit(request);
        turn_until([&] { return over; });
        timestamp = request.timestamp;
        return request.status;
    }
    SystemClock clock;
    reactor::Reactor reactor{clock};
    WrongWallClock wall{0};
    std::unique_ptr<fabric::Fabric> fabric;
    std::unique_ptr<Lane> lane;
    std::unique_ptr<ClientSession> session;
    Timestamp timestamp;
};

TEST(ClockStep, of_a_client_forward_and_back_does_not_end_its_writes) {
    Cluster cluster({.partitions = 1});
    SteppedSession client(cluster);
    ASSERT_TRUE(client.put("one"));
    const uint32_t id = client.timestamp.client();
    client.wall.step(kHour_us);
    EXPECT_FALSE(client.put("two"));
    client.wall.step(0);
    const Status status = client.put("three");
    EXPECT_TRUE(status) << status.to_string();
    // After the step back, the clock shows times again for which timestamps with the old id were already
    // issued.
    EXPECT_NE(client.timestamp.client(), id);
}

TEST(ClockStep, of_a_client_back_does_not_end_its_writes) {
    Cluster cluster({.partitions = 1});
    SteppedSession client(cluster);
    ASSERT_TRUE(client.put("one"));
    client.wall.step(-kHour_us);
    const Status status = client.put("two");
    EXPECT_TRUE(status) << status.to_string();
}

// If such ids stayed blocked, every id of a partition could be blocked until its clock reaches the old time
// again.
TEST(ClockStep, back_leaves_the_ids_of_clients_that_have_written_free) {
    Cluster cluster({.partitions = 1, .clocks_ahead_us = {24 * kHour_us}});
    uint32_t id = 0;
    uint64_t timestamp = 0;
    {
        RawClient client(cluster.addresses()[0]);
        id = client.link().facts().client_id;
        timestamp = client.transaction(0);
        ASSERT_EQ(client.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit, write_of(timestamp, "key")),
                  wire::KvStatus::kCommitted);
        cluster.step_clock(0, 0);
        client.send_only(wire::KvKind::kGoodbye, wire::KvDecision{});
        ASSERT_EQ(client.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
    }
    RawClient next(cluster.addresses()[0], 1, 77, id);  // reconnects until the partition accepts it
    ASSERT_EQ(next.link().facts().client_id, id);
    EXPECT_EQ(next.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit,
                       write_of(next.transaction(0), "another key")),
              wire::KvStatus::kCommitted);
}

}  // namespace wss::kv::test
