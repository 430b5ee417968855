// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/address.h"

#include <charconv>
#include <utility>

namespace wss::fabric {

constexpr std::pair<std::string_view, Scheme> kSchemes[] = {{"rdma://", Scheme::kRdma},
                                                            {"tcp://", Scheme::kTcp},
                                                            {"tls://", Scheme::kTls},
                                                            {"shm://", Scheme::kShm},
                                                            {"sim://", Scheme::kSim}};

std::string_view fabric_name(Scheme scheme) {
    if (scheme == Scheme::kRdma) return "verbs";
    for (const auto& [prefix, known] : kSchemes)
        if (known == scheme) return prefix.substr(0, prefix.find(':'));
    return {};
}

static Status wrong(std::string_view uri, std::string_view why) {
    return failure(
        Code::kInvalid,
        "address '{}': {}; write rdma://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or shm:///PATH", uri,
        why);
}

static Result<uint16_t> parse_port(std::string_view uri, std::string_view text) {
    uint16_t port = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size())
        return wrong(uri, "the port is not a number up to 65535");
    return port;
}

// Splits "host:port", "[v6]:port", "host" or "[v6]".
static Result<Address> parse_host_port(std::string_view uri, std::string_view rest, Scheme scheme,
                                       uint16_t default_port) {
    Address address{.scheme = scheme, .host = {}, .port = default_port};
    std::string_view after;
    if (rest.starts_with('[')) {
        size_t close = rest.find(']');
        if (close == std::string_view::npos)
            return wrong(uri, "the bracket of the IPv6 address is not closed");
        address.host = rest.substr(1, close - 1);
        after = rest.substr(close + 1);
    } else {
        size_t colon = rest.find(':');
        address.host = rest.substr(0, colon);
        after = colon == std::string_view::npos ? std::string_view() : rest.substr(colon);
    }
    if (address.host.empty()) return wrong(uri, "the host is missing");
    if (after.empty()) return address;
    if (after.front() != ':') return wrong(uri, "something other than a port follows the host");
    Result<uint16_t> port = parse_port(uri, after.substr(1));
    if (!port) return port.status();
    address.port = *port;
    return address;
}

Result<Address> Address::parse(std::string_view uri, uint16_t default_port) {
    for (const auto& [prefix, scheme] : kSchemes) {
        if (!uri.starts_with(prefix)) continue;
        std::string_view rest = uri.substr(prefix.size());
        if (has_host(scheme)) return parse_host_port(uri, rest, scheme, default_port);
        if (scheme == Scheme::kShm && !rest.starts_with('/')) return wrong(uri, "the path must be absolute");
        if (rest.empty()) return wrong(uri, "the name is missing");
        return Address{.scheme = scheme, .host = std::string(rest), .port = 0};
    }
    return wrong(uri, "unknown scheme");
}

std::string Address::to_string() const {
    for (const auto& [prefix, known] : kSchemes) {
        if (known != scheme) continue;
        if (scheme == Scheme::kShm || scheme == Scheme::kSim) return std::string(prefix) + host;
        bool v6 = host.find(':') != std::string::npos;
        return fmt::format("{}{}{}{}:{}", prefix, v6 ? "[" : "", host, v6 ? "]" : "", port);
    }
    return host;
}

}  // namespace wss::fabric
