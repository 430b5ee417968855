// SPDX-License-Identifier: Apache-2.0
// Peers that occupy connections of a partition without using them: many from one source, and peers that send
// no greeting.
#include "lib/kv/service/connection_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>
#include <thread>
#include <utility>

#include "lib/fabric/open.h"
#include "lib/kv/service/service.h"

namespace wss::kv::test {
namespace {

// A connection of the fabric: open until either end closes it.
class FakeConnection final : public fabric::Connection {
  public:
    explicit FakeConnection(fabric::ConnectionHandler& handler) : handler_(handler) {}
    Code post(std::span<const fabric::WorkRequest>) noexcept override { return Code::kOk; }
    Code post_receives(std::span<const fabric::Receive> receives) noexcept override {
        if (into_ == nullptr) into_ = receives[0].segments[0].address, cookie_ = receives[0].cookie;
        return Code::kOk;
    }
    Status accept(std::span<const std::byte>) override { return Status::ok(); }
    void close() noexcept override { closed_ = true; }
    std::string peer() const override { return "fake"; }

    void established() { handler_.on_established(*this, {}); }
    bool closed() const { return closed_; }
    // Must be the last call.
    void over() { handler_.on_closed(*this, Status(Code::kClosed, "the peer is gone")); }
    void arrive(std::span<const std::byte> message) {
        std::memcpy(into_, message.data(), message.size());
        const fabric::Completion completion{.cookie = cookie_,
                                            .kind = fabric::CompletionKind::kReceive,
                                            .length = static_cast<uint32_t>(message.size())};
        handler_.on_completions(*this, {&completion, 1});
    }

  private:
    fabric::ConnectionHandler& handler_;
    void* into_ = nullptr;
    uint64_t cookie_ = 0;
    bool closed_ = false;
};

struct Client {
    FakeConnection* connection = nullptr;  // nullptr: refused or closed
    bool rejected = false;
};

class FakeRequest final : public fabric::ConnectRequest {
  public:
    FakeRequest(std::string host, Client& client) : host_(std::move(host)), client_(client) {}
    std::span<const std::byte> data() const override { return std::as_bytes(std::span(wire::kKvMagic)); }
    std::string peer() const override { return host_ + ":4711"; }
    Result<std::unique_ptr<fabric::Connection>> create(fabric::Poller&, const fabric::ConnectionOptions&,
                                                       fabric::ConnectionHandler& handler) override {
        auto made = std::make_unique<FakeConnection>(handler);
        client_.connection = made.get();
        return std::unique_ptr<fabric::Connection>(std::move(made));
    }
    void reject(std::span<const std::byte>) noexcept override { client_.rejected = true; }

  private:
    const std::string host_;
    Client& client_;
};

class ManualClock final : public Clock {
  public:
    Nanoseconds now() noexcept override { return now_; }
    void pass(Nanoseconds time) { now_ = now_ + time; }

  private:
    Nanoseconds now_ = from_s(1000);
};

struct Connections : testing::Test {
    ManualClock clock;
    SystemWallClock wall;
    reactor::Reactor reactor{clock};
    std::unique_ptr<fabric::Fabric> fabric =
        std::move(*fabric::open(*fabric::Address::parse("tcp://127.0.0.1:0", kDefaultPort)));
    std::unique_ptr<Service> service;
    std::list<Client> clients;

    void SetUp() override {
        ServiceOptions options;
        options.partitions = {"tcp://127.0.0.1:0"};
        options.arena_bytes = 1u << 20;
        service = std::move(*Service::create(reactor, {fabric.get()}, wall, nullptr, options));
    }
    void TearDown() override {
        for (Client& client : clients) end(client);
        bool stopped = false;
        service->stop([&] { stopped = true; });
        for (int i = 0; i < 1000 && !stopped; ++i, clock.pass(from_ms(10))) reactor.step();
        EXPECT_TRUE(stopped);
    }
    Client& connect(const std::string& host) {
        Client& client = clients.emplace_back();
        service->connect_requested(0, std::make_unique<FakeRequest>(host, client));
        if (client.connection != nullptr) client.connection->established();
        settle();
        return client;
    }
    void end(Client& client) {
        if (client.connection != nullptr) std::exchange(client.connection, nullptr)->over();
    }
    // Ends the connections that the service has closed.
    void settle() {
        for (Client& client : clients)
            if (client.connection != nullptr && client.connection->closed()) end(client);
    }
    void pass(Nanoseconds time) {
        for (const Nanoseconds until = clock.now() + time; clock.now() < until; clock.pass(from_ms(100)))
            reactor.step();
        reactor.step();
        settle();
    }
    void greet(Client& client) {
        wire::KvBuffer message;
        wire::encode({.kind = wire::KvKind::kHello, .id = 1}, wire::KvHello{}, message);
        client.connection->arrive(message);
    }
    size_t open() const {
        return std::count_if(clients.begin(), clients.end(),
                             [](auto& one) { return one.connection != nullptr; });
    }
};

TEST_F(Connections, without_a_greeting_are_closed_in_time_and_others_stay_open) {
    Client& silent = connect("10.0.0.1");
    Client& client = connect("10.0.0.1");
    greet(client);
    pass(kGreetWithin - from_ms(100));
    EXPECT_NE(silent.connection, nullptr);
    Client& late = connect("10.0.0.1");
    pass(from_ms(200));
    EXPECT_EQ(silent.connection, nullptr);
    EXPECT_NE(late.connection, nullptr) << "each connection has its own time";
    pass(kGreetWithin);
    EXPECT_EQ(late.connection, nullptr);
    EXPECT_NE(client.connection, nullptr);
    EXPECT_EQ(service->connections().closed_ungreeted, 2u);
}

TEST_F(Connections, without_a_greeting_make_room_for_any_number_of_other_sources) {
    for (size_t i = 0; i < 2 * kPendingMax; ++i) connect("10.0.0.1");
    for (size_t i = 0; i < 2 * kPendingMax; ++i) connect("10.0.1." + std::to_string(i % 100));
    Client& client = connect("10.0.0.2");
    for (size_t i = 0; i < 2 * kPendingMax; ++i) connect("10.0.1." + std::to_string(i % 100));
    ASSERT_NE(client.connection, nullptr);
    greet(client);
    EXPECT_LE(open(), kPendingMax + 1);
    EXPECT_EQ(service->connections().refused, 0u);
    pass(kGreetWithin + from_ms(100));
    EXPECT_EQ(open(), 1u);
    EXPECT_NE(client.connection, nullptr);
}

// A partition keeps the part of a message that has arrived.
TEST_F(Connections, are_closed_when_a_peer_without_a_greeting_announces_a_long_message) {
    Client& peer = connect("10.0.0.1");
    wire::KvBuffer message;
    wire::encode({.kind = wire::KvKind::kHello, .id = 1}, wire::KvHello{}, message);
    std::vector<std::byte> header(message.data(), message.data() + wire::kKvHeaderBytes);
    wire::put32(header.data() + 12, 4096);
    peer.connection->arrive(header);
    EXPECT_TRUE(peer.connection->closed());
    // After its greeting, a peer may send such messages.
    Client& client = connect("10.0.0.1");
    greet(client);
    client.connection->arrive(header);
    EXPECT_FALSE(client.connection->closed());
}

// These connections exist only as places.
struct Places : testing::Test, PeerHandler {
    SystemClock clock;
    reactor::Reactor reactor{clock};
    std::unique_ptr<fabric::Fabric> fabric =
        std::move(*fabric::open(*fabric::Address::parse("tcp://127.0.0.1:0", kDefaultPort)));
    std::unique_ptr<Lane> lane = std::move(*Lane::create(reactor, *fabric));
    ConnectionPlaces places;
    std::list<Peer> peers;

    void message_arrived(Peer&, wire::Bytes) noexcept override {}
    void peer_gone(Peer&) noexcept override {}
    bool take_and_greet(const std::string& source) {
        peers.emplace_back(*lane, 0, *this);
        const bool taken = places.take(peers.back(), source, clock.now());
        if (taken) places.greeted(peers.back());
        return taken;
    }
    size_t fill(const std::string& source) {
        size_t taken = 0;
        while (take_and_greet(source)) ++taken;
        return taken;
    }
};

TEST_F(Places, of_one_source_are_a_quarter_of_all) {
    EXPECT_EQ(fill("10.0.0.1"), kPeersPerSource);
    EXPECT_EQ(places.counters().refused, 1u);
    EXPECT_TRUE(take_and_greet("10.0.0.2"));
    places.left(peers.front());
    EXPECT_TRUE(take_and_greet("10.0.0.1")) << "a released place can be taken again";
}

// The fabric closes a connection some time after its eviction.
TEST_F(Places, of_evicted_connections_that_are_not_closed_yet_are_limited_and_the_log_names_this_limit) {
    std::list<Client> clients;
    auto take = [&](const std::string& source) {
        FakeRequest request(source, clients.emplace_back());
        peers.emplace_back(*lane, 0, *this);
        return places.take(peers.back(), source, clock.now()) && peers.back().accept(request).is_ok();
    };
    for (size_t i = 0; i < kPendingMax + kPendingLeaving; ++i)
        ASSERT_TRUE(take("10.0.0." + std::to_string(i % 4))) << i;
    std::string log;
    // The closed connections have used up the log lines of this second.
    for (int i = 0; i < 30 && log.empty(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        testing::internal::CaptureStderr();
        EXPECT_FALSE(take("10.0.1.1"));
        log = testing::internal::GetCapturedStderr();
    }
    EXPECT_NE(log.find("512 without a greeting are open, and 512 more are being closed, the limit"),
              std::string::npos)
        << log;
    for (Client& client : clients)
        if (client.connection != nullptr) client.connection->over();
}

TEST_F(Places, of_all_sources_are_limited) {
    size_t taken = 0;
    for (int source = 0; source < 6; ++source) taken += fill("10.0.0." + std::to_string(source));
    EXPECT_EQ(taken, kPeersMax);
}

}  // namespace
}  // namespace wss::kv::test
