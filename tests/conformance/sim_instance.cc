// SPDX-License-Identifier: Apache-2.0
// The simulated fabric under test, without faults: two nodes of a world whose time advance() moves.
#include "lib/fabric/sim/sim_fabric.h"
#include "tests/conformance/fabric_under_test.h"

namespace wss::fabric::conformance {
namespace {

class SimWorld final : public World {
  public:
    SimWorld() { dead_.crash(); }
    Fabric& client() override { return *client_fabric_; }
    Fabric& server() override { return *server_fabric_; }
    Address listen_address() override { return {.scheme = Scheme::kSim, .host = "server", .port = 1}; }
    Address nobody() override { return {.scheme = Scheme::kSim, .host = "server", .port = 2}; }
    std::optional<Address> silent() override {
        return Address{.scheme = Scheme::kSim, .host = "dead", .port = 1};
    }
    void advance() override { world_.step(world_.now() + from_ms(100)); }
    bool is_real() const override { return false; }

  private:
    sim::World world_{42};
    SimNetwork network_;
    sim::Node& client_node_ = world_.add_node("client");
    sim::Node& server_node_ = world_.add_node("server");
    sim::Node& dead_ = world_.add_node("dead");
    std::unique_ptr<Fabric> client_fabric_ = open_sim(client_node_, network_);
    std::unique_ptr<Fabric> server_fabric_ = open_sim(server_node_, network_);
};

const Registration kSim({.name = "sim", .make = [] { return std::make_unique<SimWorld>(); }});

}  // namespace
}  // namespace wss::fabric::conformance
