// SPDX-License-Identifier: Apache-2.0
// An initiator that connects to a relay (tests/support/relay.h) instead of its target.
#include <gtest/gtest.h>

#include "lib/base/log.h"
#include "lib/initiator/session.h"
#include "tests/sim/scenarios/block_target.h"
#include "tests/support/relay.h"

namespace wss::sim {
namespace {

constexpr uint16_t kPort = 1;

fabric::Address at(const std::string& node) {
    return {.scheme = fabric::Scheme::kSim, .host = node, .port = kPort};
}

class RelayNode {
  public:
    RelayNode(Node& node, const fabric::SimNetwork& network, const std::string& target)
        : node_(node),
          reactor_(node.clock(), {.spin = kNever}),
          fabric_(fabric::open_sim(node, network)),
          poller_(*fabric_->create_poller()),
          relay_(*fabric_, *poller_, at(node.name()), at(target)) {
        EXPECT_TRUE(relay_.status().is_ok()) << relay_.status().to_string();
        reactor_.add(*poller_);
        node_.run(reactor_);
    }
    ~RelayNode() {
        node_.forget(reactor_);
        reactor_.remove(*poller_);
    }
    fabric::Relay& relay() { return relay_; }

  private:
    Node& node_;
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    fabric::Relay relay_;
};

class Initiator final : public initiator::SessionHandler {
  public:
    Initiator(Node& node, const fabric::SimNetwork& network, const std::string& target)
        : node_(node),
          reactor_(node.clock(), {.spin = kNever}),
          fabric_(fabric::open_sim(node, network)),
          poller_(*fabric_->create_poller()) {
        initiator::Options options;
        options.address = at(target);
        options.identity = {.name = "alice", .secret = Secret("the secret of alice")};
        options.bounce_bytes = 4 << 20;
        session_ = *initiator::Session::create(reactor_, *fabric_, *poller_, random_, options, *this);
        reactor_.add(*poller_);
        node_.run(reactor_);
        session_->start();
    }
    ~Initiator() override {
        node_.forget(reactor_);
        session_.reset();
        reactor_.remove(*poller_);
    }
    void on_failed(initiator::Session&, const Status& status) noexcept override { why = status; }
    void on_closed(initiator::Session&) noexcept override { why = Status(Code::kClosed); }
    void close() { session_->close(); }

    std::optional<Status> why;  // why it is over

  private:
    Node& node_;
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    Random random_{7};
    std::unique_ptr<initiator::Session> session_;
};

class RelayTest : public ::testing::Test {
  protected:
    explicit RelayTest(bool binding) { network_.channel_binding = binding; }
    void SetUp() override {
        ASSERT_TRUE(log::set_level(getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off"));
        const std::vector<NamedSecret> secrets{{"alice", Secret("the secret of alice")}};
        target_.use_secrets(std::make_shared<const auth::SecretBook>("vault", secrets));
        target_.start();
        ASSERT_TRUE(until([&] { return target_.started(); }));
        relay_ = std::make_unique<RelayNode>(world_.add_node("relay"), network_, "target");
        initiator_ = std::make_unique<Initiator>(world_.add_node("initiator"), network_, "relay");
    }
    void TearDown() override {
        if (!initiator_->why) initiator_->close();
        relay_->relay().close();
        EXPECT_TRUE(until([&] { return relay_->relay().is_over() && initiator_->why.has_value(); }));
        initiator_.reset();
        relay_.reset();
        target_.stop();
        EXPECT_TRUE(until([&] { return target_.stopped(); }));
    }
    bool until(const std::function<bool()>& done) { return world_.run_until(done, from_s(30)); }
    std::vector<block::SessionInfo> sessions() { return target_.service().sessions().list(); }

    fabric::SimNetwork network_{};
    World world_{1};
    io::SimDiskFaults disk_faults_{};
    io::SimDisk disk_{world_, 8192 * io::SimDisk::kSector, disk_faults_};
    BlockTarget target_{world_.add_node("target"), network_, disk_};
    std::unique_ptr<RelayNode> relay_;
    std::unique_ptr<Initiator> initiator_;
};

class RelayOverABoundFabric : public RelayTest {
  protected:
    RelayOverABoundFabric() : RelayTest(true) {}
};

TEST_F(RelayOverABoundFabric, cannot_forward_a_login) {
    ASSERT_TRUE(until([&] { return initiator_->why.has_value(); }));
    EXPECT_NE(initiator_->why->to_string().find("a relay forwards the login"), std::string::npos)
        << initiator_->why->to_string();
    EXPECT_GE(relay_->relay().forwarded(), 2u) << "START and CHALLENGE";
    EXPECT_TRUE(sessions().empty());
}

class RelayOverAnUnboundFabric : public RelayTest {
  protected:
    RelayOverAnUnboundFabric() : RelayTest(false) {}
};

// The limit of tcp, as SECURITY.md states it. It also shows that the relay of the test above works.
TEST_F(RelayOverAnUnboundFabric, forwards_a_login) {
    ASSERT_TRUE(until([&] { return !sessions().empty(); }));
    EXPECT_EQ(sessions()[0].name, "alice");
    EXPECT_TRUE(sessions()[0].authenticated);
}

}  // namespace
}  // namespace wss::sim
