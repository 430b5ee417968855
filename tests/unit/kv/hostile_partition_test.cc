// SPDX-License-Identifier: Apache-2.0
// Partitions and clients that misuse client ids.
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {
namespace {

// Answers every greeting with the test's function.
class FakePartition final : public fabric::ListenHandler {
  public:
    // Returns false to close the connection after the reply has been sent.
    using Greet = bool (*)(MessageChannel& channel, const wire::KvHello& hello, wire::KvHeader reply);
    FakePartition(const std::string& uri, Greet greet) : greet_(greet) {
        auto address = fabric::Address::parse(uri, kDefaultPort);
        fabric_ = std::move(*fabric::open(*address));
        lane_ = std::move(*Lane::create(reactor_, *fabric_));
        auto listener = lane_->poller().listen(*address, *this);
        EXPECT_TRUE(listener) << listener.status().to_string();
        listener_ = std::move(*listener);
        thread_ = std::thread([this] { reactor_.run(); });
    }
    ~FakePartition() override {
        reactor_.stop();
        thread_.join();
        listener_.reset();
        peers_.clear();
        const Nanoseconds limit = clock_.now() + from_s(20);
        while (!lane_->empty() && clock_.now() < limit) reactor_.turn();
        EXPECT_TRUE(lane_->empty());
    }

  private:
    class Peer final : public ChannelOwner {
      public:
        Peer(Lane& lane, Greet greet) : ChannelOwner(lane), greet_(greet) {}
        using ChannelOwner::accept;
        void on_up(MessageChannel&) noexcept override {}
        void on_message(MessageChannel& channel, wire::Bytes message) noexcept override {
            wire::KvHeader header;
            wire::KvHello hello;
            if (!wire::parse_header(message, header) || header.kind != wire::KvKind::kHello ||
                !wire::parse(message, hello))
                return;
            header.is_reply = true;
            if (greet_(channel, hello, header)) return;
            lane().flush_now();
            channel.close("closed by the test");
        }
        void on_ended(const Status&) noexcept override {}

      private:
        const Greet greet_;
    };
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        peers_.push_back(std::make_unique<Peer>(*lane_, greet_));
        (void)peers_.back()->accept(*request);
    }

    const Greet greet_;
    SystemClock clock_;
    reactor::Reactor reactor_{clock_};
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<Lane> lane_;
    std::unique_ptr<fabric::Listener> listener_;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::thread thread_;
};

bool refuse(MessageChannel& channel, wire::KvHeader reply) {
    reply.status = wire::KvStatus::kIdTaken;
    channel.send(reply, wire::KvText{.text = "this client id belongs to another client"});
    return true;
}

// The greeting of partition 1 of 2, without rings, arena and index.
wire::KvHelloReply greeting_to(uint32_t client_id) {
    return {.client_id = client_id,
            .partition = 1,
            .partitions = 2,
            .incarnation = 1,
            .ticks = SystemWallClock().ticks(),
            .window_ms = 5000,
            .arena_rkey = 0,
            .arena_address = 0,
            .arena_bytes = 0,
            .arena_epoch = 1,
            .ring = {},
            .map = {},
            .index = {}};
}

// Leases an id to a client without one, and refuses all other greetings.
bool lease_and_refuse(MessageChannel& channel, const wire::KvHello& hello, wire::KvHeader reply) {
    static std::atomic<uint32_t> next{9000};
    if (hello.client_id != 0) return refuse(channel, reply);
    reply.status = wire::KvStatus::kOk;
    channel.send(reply, greeting_to(next++));
    return true;
}

// Greets like an earlier version, without announcing that it supports conditions.
bool greet_as_before_conditions(MessageChannel& channel, const wire::KvHello& hello, wire::KvHeader reply) {
    reply.status = wire::KvStatus::kOk;
    channel.send(reply, greeting_to(hello.client_id));
    return true;
}

// Does the same as lease_and_refuse(), but also closes the connection over which it leased the id.
std::atomic<int> leases_before_closing;
bool lease_and_close(MessageChannel& channel, const wire::KvHello& hello, wire::KvHeader reply) {
    leases_before_closing += hello.client_id == 0;
    return lease_and_refuse(channel, hello, reply) && hello.client_id != 0;
}

}  // namespace

// While a write to the hostile partition waits, writes to the other one continue over one connection.
void expect_others_undisturbed(FakePartition::Greet greet, uint64_t reconnects_max) {
    Cluster cluster({.partitions = 2});
    cluster.stop(1);
    FakePartition liar(cluster.addresses()[1], greet);
    kv::Options options = cluster.client_options();
    options.timeout = from_s(3);
    auto client = LocalClient::connect(options);
    ASSERT_TRUE(client) << client.status().to_string();
    ASSERT_TRUE(put(**client, {{key_on(0, 2), "value"}}));
    const uint64_t before = cluster.counters(0).connections;
    PutAll refused;
    refused.items.push_back({.key = key_on(1, 2), .value = "value"});
    static bool over;
    over = false;
    refused.done = [](Request&) noexcept { over = true; };
    (*client)->submit(refused);
    while (!over) {
        const Status status = put(**client, {{key_on(0, 2), "value"}});
        ASSERT_TRUE(status) << status.to_string();
    }
    EXPECT_FALSE(refused.status);
    EXPECT_NE(refused.status.to_string().find("partition 1"), std::string::npos)
        << refused.status.to_string();
    EXPECT_LE(cluster.counters(0).connections, before + reconnects_max);
}

TEST(LyingPartition, that_refuses_every_client_id_loses_only_its_own_connection) {
    expect_others_undisturbed([](MessageChannel& channel, const wire::KvHello&,
                                 wire::KvHeader reply) { return refuse(channel, reply); },
                              0);
}

TEST(OldPartition, without_support_for_conditions_receives_none_and_the_error_names_it) {
    Cluster cluster({.partitions = 2});
    cluster.stop(1);
    FakePartition old(cluster.addresses()[1], &greet_as_before_conditions);
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    PutAll write;
    write.items.push_back({.key = key_on(0, 2), .value = "value"});
    write.conditions.push_back({.key = key_on(1, 2), .expected = {}});
    (*client)->run(write);
    EXPECT_EQ(write.status.code(), Code::kUnsupported) << write.status.to_string();
    EXPECT_NE(write.status.to_string().find("partition 1"), std::string::npos) << write.status.to_string();
    EXPECT_FALSE(write.outcome_unknown);
    EXPECT_EQ(get(**client, {key_on(0, 2)}), std::vector<std::string>{"(none)"});
}

// The client takes over the id of the first lease: it reconnects to the other partition once.
TEST(LyingPartition, that_forgets_leased_ids_disturbs_the_others_once) {
    expect_others_undisturbed(&lease_and_refuse, 1);
}

// Whether the client has taken over the id by then depends on timing.
TEST(LyingPartition, that_closes_after_its_lease_disturbs_the_others_once) {
    leases_before_closing = 0;
    expect_others_undisturbed(&lease_and_close, 1);
    EXPECT_GE(leases_before_closing, 1);
}

// The client closes while it is about to take over the id.
TEST(LyingPartition, that_closes_after_its_lease_does_not_delay_a_closing_client) {
    Cluster cluster({.partitions = 2});
    cluster.stop(1);
    leases_before_closing = 0;
    FakePartition liar(cluster.addresses()[1], &lease_and_close);
    for (int i = 0; i < 20; ++i) {
        auto client = LocalClient::connect(cluster.client_options());
        ASSERT_TRUE(client) << client.status().to_string();
        ASSERT_TRUE(put(**client, {{key_on(0, 2), "value"}}));
        PutAll refused;
        refused.items.push_back({.key = key_on(1, 2), .value = "value"});
        (*client)->submit(refused);
        const int leased = leases_before_closing;
        while (leases_before_closing == leased) (*client)->turn();
        for (int turns = 0; turns < i; ++turns) (*client)->turn();
        client->reset();
        EXPECT_EQ(refused.status.code(), Code::kClosed) << refused.status.to_string();
    }
    auto next = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(next) << next.status().to_string();
    EXPECT_TRUE(put(**next, {{key_on(0, 2), "value"}}));
}

}  // namespace wss::kv::test
