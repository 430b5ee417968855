// SPDX-License-Identifier: Apache-2.0
// The only file that uses libsystemd.
#include "target/daemon/service_manager.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "lib/base/file.h"

namespace wss::daemon {

// Like sd_notify(), but with a time limit: sd_notify() waits forever while the manager does not read, which
// would block the stop of a target. A report that cannot be delivered within a second is dropped.
static void notify(const std::string& report) {
    const char* const path = std::getenv("NOTIFY_SOCKET");
    sockaddr_un manager{.sun_family = AF_UNIX, .sun_path = {}};
    const size_t length = path == nullptr ? 0 : std::strlen(path);
    if (length < 2 || length >= sizeof manager.sun_path || (path[0] != '/' && path[0] != '@')) return;
    std::memcpy(manager.sun_path, path, length);
    if (path[0] == '@') manager.sun_path[0] = '\0';  // an abstract name
    const Descriptor sender(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const timeval limit{.tv_sec = 1, .tv_usec = 0};
    if (!sender || ::setsockopt(sender.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) return;
    (void)::sendto(sender.get(), report.data(), report.size(), MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&manager),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
}

ServiceManager::ServiceManager() {
    uint64_t microseconds = 0;
    if (sd_watchdog_enabled(0, &microseconds) > 0)
        alive_every_.count = static_cast<int64_t>(microseconds * 1000 / 4);
}

void ServiceManager::ready(const std::string& status) const {
    notify("READY=1\nSTATUS=" + status);
}

void ServiceManager::reloading() const {
    // This time lets the manager recognize the READY=1 that ends this reload.
    notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", SystemClock().now().count / 1000));
}

void ServiceManager::stopping() const {
    notify("STOPPING=1");
}

void ServiceManager::goes_on(const char* where, const std::string& what, Nanoseconds at_most) const {
    notify(fmt::format("EXTEND_TIMEOUT_USEC={}\nSTATUS={}: {}", at_most.count / 1000, where, what));
}

void ServiceManager::alive(const std::string& status) const {
    notify("WATCHDOG=1\nSTATUS=" + status);
}

}  // namespace wss::daemon
