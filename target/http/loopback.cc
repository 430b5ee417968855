// SPDX-License-Identifier: Apache-2.0
#include "target/http/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>

namespace wss::http {

static bool is_loopback(const in_addr& number) {
    return ntohl(number.s_addr) >> 24 == 127;
}

static bool is_loopback(const in6_addr& number) {
    if (!IN6_IS_ADDR_V4MAPPED(&number)) return IN6_IS_ADDR_LOOPBACK(&number);
    return number.s6_addr[12] == 127;
}

bool is_loopback(const sockaddr_storage& address) {
    if (address.ss_family == AF_INET)
        return is_loopback(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
    return is_loopback(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

bool names_this_machine(const std::string& host) {
    if (host.starts_with('[')) {
        const size_t end = host.find(']');
        in6_addr number{};
        return end != std::string::npos && (end + 1 == host.size() || host[end + 1] == ':') &&
               inet_pton(AF_INET6, host.substr(1, end - 1).c_str(), &number) == 1 && is_loopback(number);
    }
    const std::string name = host.substr(0, host.find(':'));
    in_addr number{};
    return name == "localhost" || (inet_pton(AF_INET, name.c_str(), &number) == 1 && is_loopback(number));
}

}  // namespace wss::http
