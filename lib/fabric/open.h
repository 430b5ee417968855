// SPDX-License-Identifier: Apache-2.0
// Opens the fabric for an address. open.cc is the only file that includes every implementation except sim.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"
#include "lib/fabric/tls/credentials.h"

namespace wss::fabric {

// `address` is an address to listen on or connect to. For verbs it selects the RDMA device. Errors name what
// is missing (RDMA device, route, support in this build). Only tls:// uses `credentials`.
Result<std::unique_ptr<Fabric>> open(const Address& address, const tls::Credentials& credentials = {});

// An address that is reserved against other listeners. Programs that irrevocably take over a resource at
// their start reserve their address first. Destroy this object right before the real listener is created, and
// before its fabric is destroyed. Peers that connect meanwhile get no answer, and the destruction disconnects
// them.
class ReservedAddress {
  public:
    ReservedAddress() = default;  // reserves nothing
    ReservedAddress(std::unique_ptr<Poller> poller, std::unique_ptr<Listener> listener)
        : held_(new Held{std::move(poller), std::move(listener)}) {}

  private:
    struct Held {
        std::unique_ptr<Poller> poller;
        std::unique_ptr<Listener> listener;  // destroyed before the poller
    };
    std::unique_ptr<Held> held_;  // one object: memberwise assignment would destroy the poller first
};
Result<ReservedAddress> reserve(Fabric& fabric, const Address& address);

// True if the device guarantees that a peer's WRITE becomes visible in ascending byte order, so that all
// bytes are visible when the last one is. Also true for fabrics without a device. False if the order is not
// guaranteed or not known. REQUIRES an established connection.
bool writes_in_order(const Connection& connection) noexcept;

}  // namespace wss::fabric
