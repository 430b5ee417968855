// SPDX-License-Identifier: Apache-2.0
// Addresses of WSS are URIs: rdma://host:port, tcp://host:port, tls://host:port, shm:///path, sim://name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace wss::fabric {

enum class Scheme : uint8_t { kRdma, kTcp, kTls, kShm, kSim };

// True if an address of the scheme consists of a host and a port.
constexpr bool has_host(Scheme scheme) {
    return scheme == Scheme::kRdma || scheme == Scheme::kTcp || scheme == Scheme::kTls;
}

// Checks only the spelling of the host. It looks up no name.
inline bool is_loopback(std::string_view host) {
    return host.starts_with("127.") || host == "::1" || host == "localhost";
}

// Caps::name of the fabric that serves the scheme.
std::string_view fabric_name(Scheme scheme);

struct Address {
    Scheme scheme = Scheme::kTcp;
    std::string host;   // name or number (IPv6 without brackets); shm: absolute path; sim: name of the node
    uint16_t port = 0;  // 0 for schemes without a host

    // `default_port` is used if `uri` has no port. The error names the fault and shows the correct form.
    static Result<Address> parse(std::string_view uri, uint16_t default_port);
    std::string to_string() const;
    bool operator==(const Address&) const = default;
};

}  // namespace wss::fabric
