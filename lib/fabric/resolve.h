// SPDX-License-Identifier: Apache-2.0
// Resolves host names to socket addresses, for every program and fabric. Numeric addresses are converted at
// once. getaddrinfo() looks names up on a separate thread, because it can neither be interrupted nor given a
// timeout.
//
// Each connection attempt looks its name up again, so that a reconnect finds a target that has moved. A
// listener's name is looked up once, when its program starts.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/fabric/address.h"

namespace wss::fabric {

constexpr Nanoseconds kLookUpMax = from_s(5);

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t length = 0;

    sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
    void set_port(uint16_t port);
    uint16_t port() const;
    bool is_any() const;            // 0.0.0.0 or ::
    std::string host() const;       // 10.0.0.1, ::1
    std::string to_string() const;  // 10.0.0.1:4711, [::1]:4711
};
std::string to_string(const sockaddr* address);  // "an unknown peer" for nullptr

// A look-up in progress. It is shared with the thread that executes it, because the caller may stop waiting
// earlier.
struct Resolution {
    Descriptor done;  // eventfd: readable when `finished`
    std::atomic<bool> finished{false};
    Status status;                         // valid when finished
    std::vector<SocketAddress> addresses;  // valid when finished; in the resolver's order of preference
};

// Returns an empty list if the host is not a numeric address.
std::vector<SocketAddress> parse_numeric(const Address& address);
Result<std::shared_ptr<Resolution>> start_resolving(const Address& address);
// Blocks for at most `timeout`: do not call it on a reactor's thread. On success there is at least one
// address.
Result<std::vector<SocketAddress>> resolve(const Address& address, Nanoseconds timeout = kLookUpMax);
// Returns `address` with its host name replaced by its first address. Returns it unchanged if the scheme has
// no hosts. Blocks like resolve().
Result<Address> to_numeric(const Address& address);
// Address::parse() of a listen address, followed by to_numeric().
Result<Address> parse_local(std::string_view uri, uint16_t default_port);

}  // namespace wss::fabric
