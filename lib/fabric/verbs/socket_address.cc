// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>

namespace wss::fabric::verbs {

void SocketAddress::set_port(uint16_t port) {
    if (storage.ss_family == AF_INET6)
        reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
    else
        reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
}

bool SocketAddress::is_any() const {
    if (storage.ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
    return reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr == htonl(INADDR_ANY);
}

Result<SocketAddress> resolve(const Address& address) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    int error = getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
    if (error != 0)
        return failure(Code::kNotFound, "{}: the host '{}' is not known: {}", address.to_string(),
                       address.host, gai_strerror(error));
    SocketAddress result;
    memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
    result.set_port(address.port);
    freeaddrinfo(found);
    return result;
}

std::string to_string(const sockaddr* address) {
    char text[INET6_ADDRSTRLEN] = "";
    if (address == nullptr) return "nobody";
    if (address->sa_family == AF_INET) {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
        inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
        return fmt::format("{}:{}", text, ntohs(v4->sin_port));
    }
    if (address->sa_family == AF_INET6) {
        const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
        inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
        return fmt::format("[{}]:{}", text, ntohs(v6->sin6_port));
    }
    return fmt::format("address family {}", address->sa_family);
}

}  // namespace wss::fabric::verbs
