// SPDX-License-Identifier: Apache-2.0
// The channel binding of an RDMA connection (Connection::channel_binding()): both addresses, and the two
// numbers that distinguish this connection from others between the same addresses. The values of the
// connecting end come first. Both ends compute the same bytes. A process that forwards messages between two
// others has different bytes on each of its two connections. Pure functions.
//
// The connection manager gives both ends the same addresses: the accepting end gets them from the request,
// even if it listens on 0.0.0.0.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace wss::fabric::verbs {

struct BoundEnd {
    const sockaddr* address = nullptr;  // IPv4 or IPv6
    uint32_t number = 0;  // the queue pair's number; on iWARP, which does not exchange these, the TCP port
};

// Layout: wss_rdma_binding of kernel/uapi/wss_srp.h.
using Binding = std::array<std::byte, 40>;
Binding make_binding(const BoundEnd& connecting, const BoundEnd& accepting);

}  // namespace wss::fabric::verbs
