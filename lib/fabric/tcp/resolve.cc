// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/tcp/resolve.h"

#include <netdb.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace wss::fabric::tcp {

constexpr size_t kAddressesMax = 8;  // of one name; more would only lengthen the wait

std::string SocketAddress::to_string() const {
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    if (getnameinfo(get(), length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) !=
        0)
        return "unknown address";
    bool v6 = storage.ss_family == AF_INET6;
    return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

static int look_up(const Address& address, int flags, std::vector<SocketAddress>& out) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
    if (error != 0) return error;
    for (addrinfo* one = found; one != nullptr && out.size() < kAddressesMax; one = one->ai_next) {
        SocketAddress& socket_address = out.emplace_back();
        socket_address.length = std::min<socklen_t>(one->ai_addrlen, sizeof socket_address.storage);
        std::memcpy(&socket_address.storage, one->ai_addr, socket_address.length);
    }
    freeaddrinfo(found);
    return 0;
}

std::vector<SocketAddress> parse_numeric(const Address& address) {
    std::vector<SocketAddress> addresses;
    look_up(address, AI_NUMERICHOST, addresses);
    return addresses;
}

Result<std::vector<SocketAddress>> resolve(const Address& address, bool passive) {
    std::vector<SocketAddress> addresses;
    int error = look_up(address, passive ? AI_PASSIVE : 0, addresses);
    if (error != 0 || addresses.empty())
        return failure(Code::kUnavailable, "cannot find host '{}': {}", address.host,
                       error == 0 ? "it has no address" : gai_strerror(error));
    return addresses;
}

Result<std::shared_ptr<Resolution>> start_resolving(const Address& address) {
    auto resolution = std::make_shared<Resolution>();
    resolution->done = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!resolution->done) return Status::from_errno(errno, "cannot make an eventfd for a name look-up");
    // Detached: the C library's look-up cannot be cancelled, and the one who waits has a deadline.
    std::thread([resolution, address] {
        Result<std::vector<SocketAddress>> found = resolve(address, false);
        if (found)
            resolution->addresses = *found;
        else
            resolution->status = found.status();
        resolution->finished.store(true, std::memory_order_release);
        uint64_t one = 1;
        [[maybe_unused]] ssize_t written = write(resolution->done.get(), &one, sizeof one);
    }).detach();
    return resolution;
}

}  // namespace wss::fabric::tcp
