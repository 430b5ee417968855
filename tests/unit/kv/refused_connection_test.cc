// SPDX-License-Identifier: Apache-2.0
// A peer that disconnects before the server accepts its connection: the fabric reports the failure at once
// and closes the connection in a later turn.
#include <gtest/gtest.h>

#include <cstring>

#include "lib/fabric/open.h"
#include "lib/kv/service/service.h"

namespace wss::kv::test {
namespace {

// A connection whose peer is gone, so that it cannot be accepted.
class DeadConnection final : public fabric::Connection {
  public:
    Code post(std::span<const fabric::WorkRequest>) noexcept override { return Code::kClosed; }
    Code post_receives(std::span<const fabric::Receive>) noexcept override { return Code::kOk; }
    Status accept(std::span<const std::byte>) override { return Status(Code::kClosed, "the peer is gone"); }
    void close() noexcept override {}
    std::string peer() const override { return "nowhere"; }
};

// The call that the fabric makes when such a connection has ended.
struct Closing {
    fabric::Connection* connection = nullptr;
    fabric::ConnectionHandler* handler = nullptr;
};

class DeadRequest final : public fabric::ConnectRequest {
  public:
    explicit DeadRequest(std::vector<Closing>& closings) : closings_(closings) {}
    std::span<const std::byte> data() const override { return std::as_bytes(std::span(wire::kKvMagic)); }
    std::string peer() const override { return "nowhere"; }
    Result<std::unique_ptr<fabric::Connection>> create(fabric::Poller&, const fabric::ConnectionOptions&,
                                                       fabric::ConnectionHandler& handler) override {
        auto made = std::make_unique<DeadConnection>();
        closings_.push_back({made.get(), &handler});
        return std::unique_ptr<fabric::Connection>(std::move(made));
    }
    void reject(std::span<const std::byte>) noexcept override {}

  private:
    std::vector<Closing>& closings_;
};

TEST(KvService, survives_peers_that_disconnect_before_it_accepts_them) {
    SystemClock clock;
    SystemWallClock wall;
    reactor::Reactor reactor(clock);
    const std::string uri = "tcp://127.0.0.1:0";
    auto fabric = fabric::open(*fabric::Address::parse(uri, kDefaultPort));
    ASSERT_TRUE(fabric) << fabric.status().to_string();
    ServiceOptions options;
    options.partitions = {uri};
    options.arena_bytes = 1u << 20;
    auto service = Service::create(reactor, {fabric->get()}, wall, nullptr, options);
    ASSERT_TRUE(service) << service.status().to_string();

    std::vector<Closing> closings;
    for (int i = 0; i < 20; ++i) (*service)->connect_requested(0, std::make_unique<DeadRequest>(closings));
    ASSERT_EQ(closings.size(), 20u);
    for (const Closing& closing : closings)
        closing.handler->on_closed(*closing.connection, Status(Code::kClosed, "the peer is gone"));
    reactor.step();

    EXPECT_EQ((*service)->counters().connections, 0u) << "none of them was accepted";
    bool stopped = false;
    (*service)->stop([&] { stopped = true; });
    for (int i = 0; i < 1000 && !stopped; ++i) reactor.turn();
    EXPECT_TRUE(stopped) << "no connection may be left behind";
}

}  // namespace
}  // namespace wss::kv::test
