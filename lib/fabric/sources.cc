// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/sources.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "lib/base/assert.h"

namespace wss::fabric {

constexpr size_t kNetworkBytes = 8;  // IPv6 network prefix; a host chooses the remaining bytes freely

static std::string network_of(const std::string& address) {
    in6_addr bytes{};
    if (inet_pton(AF_INET6, address.c_str(), &bytes) != 1) return address;
    if (IN6_IS_ADDR_V4MAPPED(&bytes) || IN6_IS_ADDR_LOOPBACK(&bytes)) return address;
    std::memset(bytes.s6_addr + kNetworkBytes, 0, sizeof bytes.s6_addr - kNetworkBytes);
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, &bytes, text, sizeof text);
    return std::string(text) + "/64";
}

std::string source_of(std::string_view peer) {
    if (peer.starts_with('[')) {
        const size_t end = peer.find(']');
        if (end != std::string_view::npos) return network_of(std::string(peer.substr(1, end - 1)));
    }
    const size_t colon = peer.rfind(':');
    if (colon == std::string_view::npos || peer.find(':') != colon) return std::string(peer);
    return std::string(peer.substr(0, colon));
}

void SourceCounts::remove(const std::string& source) {
    auto found = counts_.find(source);
    WSS_ASSERT(found != counts_.end(), "only an added source can be removed");
    if (--found->second == 0) counts_.erase(found);
}

size_t SourceCounts::of(const std::string& source) const {
    auto found = counts_.find(source);
    return found == counts_.end() ? 0 : found->second;
}

size_t SourceCounts::most() const {
    size_t most = 0;
    for (const auto& [source, count] : counts_) most = std::max(most, count);
    return most;
}

}  // namespace wss::fabric
