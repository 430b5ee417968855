// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/binding.h"

#include <netinet/in.h>

#include <cstring>

namespace wss::fabric::verbs {

static void put_address(const sockaddr* address, std::byte* out) {
    if (address == nullptr) return;
    if (address->sa_family == AF_INET6) {
        std::memcpy(out, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, sizeof(in6_addr));
    } else if (address->sa_family == AF_INET) {
        out[10] = out[11] = std::byte{0xff};
        std::memcpy(out + 12, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, sizeof(in_addr));
    }
}

static void put_number(uint32_t number, std::byte* out) {
    const uint32_t big = htonl(number);
    std::memcpy(out, &big, sizeof big);
}

Binding make_binding(const BoundEnd& connecting, const BoundEnd& accepting) {
    Binding binding{};
    put_address(connecting.address, binding.data());
    put_address(accepting.address, binding.data() + 16);
    put_number(connecting.number, binding.data() + 32);
    put_number(accepting.number, binding.data() + 36);
    return binding;
}

}  // namespace wss::fabric::verbs
