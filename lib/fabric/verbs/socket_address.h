// SPDX-License-Identifier: Apache-2.0
// Between the host and port of an Address and the kernel's socket addresses.
#pragma once

#include <sys/socket.h>

#include <string>

#include "lib/fabric/address.h"

namespace wss::fabric::verbs {

struct SocketAddress {
    sockaddr_storage storage{};

    sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
    void set_port(uint16_t port);
    bool is_any() const;  // 0.0.0.0 or ::
};

// Looks the host up. A number costs nothing; a name may wait for the resolver.
Result<SocketAddress> resolve(const Address& address);

// "10.0.0.1:4711", "[fe80::1]:4711".
std::string to_string(const sockaddr* address);

}  // namespace wss::fabric::verbs
