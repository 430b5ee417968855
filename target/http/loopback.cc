// SPDX-License-Identifier: Apache-2.0
#include "target/http/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <string_view>

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

// `text`: what follows the name or number.
static bool is_port_or_nothing(std::string_view text) {
    if (text.empty()) return true;
    uint16_t port = 0;
    const char* const end = text.data() + text.size();
    return text[0] == ':' && std::from_chars(text.data() + 1, end, port) == std::from_chars_result{end, {}};
}

bool names_this_machine(const std::string& host) {
    const bool in_brackets = host.starts_with('[');
    const size_t end = std::min(host.find(in_brackets ? ']' : ':'), host.size());
    const std::string name = host.substr(in_brackets, end - in_brackets);
    if (!is_port_or_nothing(std::string_view(host).substr(std::min(end + in_brackets, host.size()))))
        return false;
    if (in_brackets) {
        in6_addr number{};
        return end < host.size() && inet_pton(AF_INET6, name.c_str(), &number) == 1 && is_loopback(number);
    }
    in_addr number{};
    return name == "localhost" || (inet_pton(AF_INET, name.c_str(), &number) == 1 && is_loopback(number));
}

}  // namespace wss::http
