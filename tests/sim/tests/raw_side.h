// SPDX-License-Identifier: Apache-2.0
// RawSide: a node of a simulated world for the raw initiator of the unit tests (RawClient).
#pragma once

#include "tests/sim/scenarios/cluster_parts.h"
#include "tests/unit/target/world.h"

namespace wss::sim {

class RawSide final : public block::testing::ClientSide {
  public:
    RawSide(World& world, const fabric::SimNetwork& network)
        : world_(world),
          node_(world.add_node("raw")),
          reactor_(node_.clock(), {.spin = kNever}),
          fabric_(fabric::open_sim(node_, network)),
          poller_(std::move(*fabric_->create_poller())) {
        reactor_.add(*poller_);
        node_.run(reactor_);
    }
    ~RawSide() override {
        node_.forget(reactor_);
        reactor_.remove(*poller_);
    }
    fabric::Fabric& client_fabric() override { return *fabric_; }
    fabric::Poller& client_poller() override { return *poller_; }
    const fabric::Address& address() const override { return address_; }
    bool until(const std::function<bool()>& done) override { return world_.run_until(done, from_s(2)); }

  private:
    World& world_;
    Node& node_;
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    const fabric::Address address_{.scheme = fabric::Scheme::kSim, .host = "target", .port = kTargetPort};
};

}  // namespace wss::sim
