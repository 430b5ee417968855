// SPDX-License-Identifier: Apache-2.0
// The conformance suite runs every test over every fabric that registers itself here. A new fabric needs only
// a file of its own (tcp_instance.cc is the example):
//
//   static const Registration kTcp({.name = "tcp", .make = [] { return std::make_unique<TcpWorld>(); }});
//
// A World is two ends that can reach each other, in one process and one thread: the suite polls both pollers
// and calls advance() in turn. A simulated world advances its time in advance(). A real one does nothing
// there, as the wall clock bounds its waits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "lib/fabric/fabric.h"

namespace wss::fabric::conformance {

class World {
  public:
    virtual ~World() = default;
    virtual Fabric& client() = 0;          // the connecting end
    virtual Fabric& server() = 0;          // the listening end; may be the same fabric
    virtual Address listen_address() = 0;  // an address without a listener; may be the same each time
    // An address that never has a listener, but whose network responds.
    virtual Address nobody() { return listen_address(); }
    // An address whose listener never answers a connect; nothing if the world cannot provide one.
    virtual std::optional<Address> silent() { return std::nullopt; }
    // Advances the world; called between polls.
    virtual void advance() {}
    // Real: has processes, threads, descriptors and the wall clock.
    virtual bool is_real() const { return true; }
    // Cycles of the connect/disconnect test: 10 000, fewer where the device makes each one slow.
    virtual int cycles() const { return 10'000; }
};

struct FabricUnderTest {
    std::string name;
    std::function<std::unique_ptr<World>()> make;
};

inline void PrintTo(const FabricUnderTest& fabric, std::ostream* out) {
    *out << fabric.name;
}

inline std::vector<FabricUnderTest>& registry() {
    static std::vector<FabricUnderTest> all;
    return all;
}

struct Registration {
    explicit Registration(FabricUnderTest fabric) { registry().push_back(std::move(fabric)); }
};

}  // namespace wss::fabric::conformance
