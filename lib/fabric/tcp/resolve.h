// SPDX-License-Identifier: Apache-2.0
// Names to socket addresses without blocking: numbers at once, names on a thread of their own.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/fabric/address.h"
#include "lib/fabric/stream/poller.h"

namespace wss::fabric::tcp {

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t length = 0;
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
    std::string to_string() const;  // 10.0.0.1:4711, [::1]:4711
};

// A look-up under way. Shared with the thread that does it: whoever started it may leave earlier.
struct Resolution {
    Descriptor done;  // eventfd: readable when `finished`
    std::atomic<bool> finished{false};
    Status status;                         // valid when finished
    std::vector<SocketAddress> addresses;  // valid when finished
};

// Empty when the host is not a number.
std::vector<SocketAddress> parse_numeric(const Address& address);
// Blocks for as long as the resolver takes.
Result<std::vector<SocketAddress>> resolve(const Address& address, bool passive);
Result<std::shared_ptr<Resolution>> start_resolving(const Address& address);

}  // namespace wss::fabric::tcp
