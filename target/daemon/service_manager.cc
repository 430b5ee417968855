// SPDX-License-Identifier: Apache-2.0
// The only file that uses libsystemd.
#include "target/daemon/service_manager.h"

#include <systemd/sd-daemon.h>

namespace wss::daemon {

// A report that cannot be delivered is no reason to stop, so the results of sd_notify() are ignored.

ServiceManager::ServiceManager() {
    uint64_t microseconds = 0;
    if (sd_watchdog_enabled(0, &microseconds) > 0)
        alive_every_.count = static_cast<int64_t>(microseconds * 1000 / 4);
}

void ServiceManager::ready(const std::string& status) const {
    sd_notifyf(0, "READY=1\nSTATUS=%s", status.c_str());
}

void ServiceManager::reloading() const {
    // By this time the manager recognizes the READY=1 that ends this reload.
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld",
               static_cast<long long>(SystemClock().now().count / 1000));
}

void ServiceManager::stopping() const {
    sd_notify(0, "STOPPING=1");
}

void ServiceManager::goes_on(const char* where, const std::string& what, Nanoseconds at_most) const {
    sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%lld\nSTATUS=%s: %s", static_cast<long long>(at_most.count / 1000),
               where, what.c_str());
}

void ServiceManager::alive(const std::string& status) const {
    sd_notifyf(0, "WATCHDOG=1\nSTATUS=%s", status.c_str());
}

}  // namespace wss::daemon
