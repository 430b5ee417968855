// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "lib/base/thread.h"

namespace wss::fabric {

constexpr size_t kAddressesMax = 8;  // per name; more would only lengthen the wait

// --- socket addresses ---

void SocketAddress::set_port(uint16_t port) {
    if (storage.ss_family == AF_INET6)
        reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
    else
        reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
}

uint16_t SocketAddress::port() const {
    if (storage.ss_family == AF_INET6)
        return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
    return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

bool SocketAddress::is_any() const {
    if (storage.ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
    return reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr == htonl(INADDR_ANY);
}

std::string SocketAddress::host() const {
    char text[NI_MAXHOST];
    // Includes the scope of a link-local address, which inet_ntop() omits.
    if (getnameinfo(get(), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "unknown";
    return text;
}

std::string SocketAddress::to_string() const {
    const bool v6 = storage.ss_family == AF_INET6;
    return fmt::format("{}{}{}:{}", v6 ? "[" : "", host(), v6 ? "]" : "", port());
}

std::string to_string(const sockaddr* address) {
    if (address == nullptr) return "an unknown peer";
    SocketAddress copy;
    if (address->sa_family == AF_INET)
        copy.length = sizeof(sockaddr_in);
    else if (address->sa_family == AF_INET6)
        copy.length = sizeof(sockaddr_in6);
    else
        return fmt::format("address family {}", address->sa_family);
    std::memcpy(&copy.storage, address, copy.length);
    return copy.to_string();
}

// --- look-ups ---

static int look_up(const Address& address, int flags, std::vector<SocketAddress>& out) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
    if (error != 0) return error;
    for (addrinfo* one = found; one != nullptr && out.size() < kAddressesMax; one = one->ai_next) {
        if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
        SocketAddress& socket_address = out.emplace_back();
        socket_address.length = std::min<socklen_t>(one->ai_addrlen, sizeof socket_address.storage);
        std::memcpy(&socket_address.storage, one->ai_addr, socket_address.length);
    }
    freeaddrinfo(found);
    return 0;
}

static Status not_found(const std::string& host, const std::string& why) {
    return failure(Code::kUnavailable,
                   "cannot find host '{}': {}; check its spelling, /etc/hosts and the name server (getent "
                   "ahosts {})",
                   host, why, host);
}

static void finish(Resolution& resolution, const Address& address) noexcept {
    int error = look_up(address, 0, resolution.addresses);
    if (error != 0)
        resolution.status = not_found(address.host, gai_strerror(error));
    else if (resolution.addresses.empty())
        resolution.status = not_found(address.host, "it has no address");
    resolution.finished.store(true, std::memory_order_release);
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(resolution.done.get(), &one, sizeof one);
}

std::vector<SocketAddress> parse_numeric(const Address& address) {
    std::vector<SocketAddress> addresses;
    look_up(address, AI_NUMERICHOST, addresses);
    return addresses;
}

Result<std::shared_ptr<Resolution>> start_resolving(const Address& address) {
    auto resolution = std::make_shared<Resolution>();
    resolution->done = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!resolution->done) return Status::from_errno(errno, "cannot create an eventfd for a name look-up");
    auto thread = start_thread("a name look-up", [resolution, address] { finish(*resolution, address); });
    if (!thread) return thread.status();
    // getaddrinfo() cannot be cancelled, and the caller has its own deadline.
    thread->detach();
    return resolution;
}

Result<std::vector<SocketAddress>> resolve(const Address& address, Nanoseconds timeout) {
    if (auto numeric = parse_numeric(address); !numeric.empty()) return numeric;
    auto resolution = start_resolving(address);
    if (!resolution) return resolution.status();
    const Nanoseconds end = SystemClock().now() + timeout;
    do {
        const int64_t left_ms = (end - SystemClock().now()).count / from_ms(1).count;
        if (left_ms <= 0)
            return not_found(address.host, fmt::format("no name server answered within {} ms",
                                                       timeout.count / from_ms(1).count));
        pollfd done{(*resolution)->done.get(), POLLIN, 0};
        poll(&done, 1, static_cast<int>(left_ms));
    } while (!(*resolution)->finished.load(std::memory_order_acquire));
    if (!(*resolution)->status) return (*resolution)->status;
    return (*resolution)->addresses;
}

Result<Address> to_numeric(const Address& address) {
    if (!has_host(address.scheme)) return address;
    auto found = resolve(address);
    if (!found) return found.status();
    Address numeric = address;
    numeric.host = found->front().host();
    return numeric;
}

Result<Address> parse_local(std::string_view uri, uint16_t default_port) {
    auto address = Address::parse(uri, default_port);
    if (!address) return address.status();
    return to_numeric(*address);
}

}  // namespace wss::fabric
