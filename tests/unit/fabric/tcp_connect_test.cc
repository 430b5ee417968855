// SPDX-License-Identifier: Apache-2.0
// Names in tcp addresses: lookups do not block, every address of a name is tried, and failure takes bounded
// time.
#include <gtest/gtest.h>

#include "lib/base/clock.h"
#include "lib/fabric/tcp/tcp.h"

namespace wss::fabric::tcp {
namespace {

struct Heard final : ConnectionHandler {
    void on_established(Connection&, std::span<const std::byte>) noexcept override { established = true; }
    void on_refused(Connection&, const Status& status, std::span<const std::byte>) noexcept override {
        over = true;
        why = status;
    }
    void on_completions(Connection&, std::span<const Completion>) noexcept override {}
    void on_closed(Connection&, const Status&) noexcept override { over = true; }
    bool established = false, over = false;
    Status why;
};

class TcpNames : public testing::Test, public ListenHandler {
  public:
    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        server = std::move(*request->create(*poller, {}, server_heard));
        ASSERT_TRUE(server->accept({}));
    }
    template <typename Done>
    bool wait(Done&& done) {
        SystemClock clock;
        Nanoseconds deadline = clock.now() + from_s(20);
        while (!done()) {
            poller->poll();
            if (clock.now() > deadline) return false;
        }
        return true;
    }
    void connect(const Address& address) {
        SystemClock clock;
        Nanoseconds begin = clock.now();
        ConnectionOptions options{.connect_timeout = from_s(3)};
        client = std::move(*poller->connect(address, {}, options, client_heard));
        EXPECT_LT(clock.now() - begin, from_s(2)) << "connect() does not wait for a resolver";
    }

    std::unique_ptr<Fabric> fabric = std::move(*open());
    std::unique_ptr<Poller> poller = std::move(*fabric->create_poller());
    Heard client_heard, server_heard;
    std::unique_ptr<Connection> client, server;
};

TEST_F(TcpNames, are_looked_up_and_their_addresses_tried_in_turn) {
    // localhost may resolve to ::1 first, but only 127.0.0.1 listens.
    auto listener =
        std::move(*poller->listen({.scheme = Scheme::kTcp, .host = "127.0.0.1", .port = 0}, *this));
    Address address = listener->address();
    address.host = "localhost";
    connect(address);
    ASSERT_TRUE(
        wait([&] { return client_heard.over || (client_heard.established && server_heard.established); }));
    ASSERT_TRUE(client_heard.established) << client_heard.why.to_string();
    client->close();
    ASSERT_TRUE(wait([&] { return client_heard.over && server_heard.over; }));
}

TEST_F(TcpNames, that_are_unknown_are_refused_in_time_with_the_name_in_the_text) {
    connect({.scheme = Scheme::kTcp, .host = "no-such-host.invalid", .port = 1});
    ASSERT_TRUE(wait([&] { return client_heard.over; }));
    EXPECT_NE(client_heard.why.text().find("no-such-host.invalid"), std::string::npos)
        << client_heard.why.to_string();
}

TEST_F(TcpNames, that_are_being_looked_up_do_not_keep_a_connection_from_closing) {
    connect({.scheme = Scheme::kTcp, .host = "no-such-host.invalid", .port = 1});
    client->close();
    ASSERT_TRUE(wait([&] { return client_heard.over; }));
}

TEST_F(TcpNames, a_listener_may_outlive_its_poller) {
    auto listener =
        std::move(*poller->listen({.scheme = Scheme::kTcp, .host = "127.0.0.1", .port = 0}, *this));
    poller.reset();
    listener.reset();
}

}  // namespace
}  // namespace wss::fabric::tcp
