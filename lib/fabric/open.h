// SPDX-License-Identifier: Apache-2.0
// Opens the fabric that an address needs: the only place that knows every implementation.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"
#include "lib/fabric/tls/credentials.h"

namespace wss::fabric {

// `address` is where one will listen or connect: for verbs it selects the RDMA device. Fails with a text that
// says what is missing (no RDMA device, no route, no support in this build). `credentials` are of use to
// tls:// only.
Result<std::unique_ptr<Fabric>> open(const Address& address, const tls::Credentials& credentials = {});

// An address that nobody else can listen at: for programs whose start takes something from others that they
// cannot give back. Destroy it right before the listener is made, and before its fabric. Peers that connect
// meanwhile are not heard, and are disconnected then.
class ReservedAddress {
  public:
    ReservedAddress() = default;  // of nothing
    ReservedAddress(std::unique_ptr<Poller> poller, std::unique_ptr<Listener> listener)
        : held_(new Held{std::move(poller), std::move(listener)}) {}

  private:
    struct Held {
        std::unique_ptr<Poller> poller;
        std::unique_ptr<Listener> listener;  // dies before the poller
    };
    std::unique_ptr<Held> held_;  // as one: assignment member by member would end the poller first
};
Result<ReservedAddress> reserve(Fabric& fabric, const Address& address);

// Does the device promise that a peer's WRITE becomes visible in order of its bytes, so that whoever polls
// for the last one has them all? Asked of an established connection. False: not so, or nobody knows; true
// also where no device is in it.
bool writes_in_order(const Connection& connection) noexcept;

}  // namespace wss::fabric
