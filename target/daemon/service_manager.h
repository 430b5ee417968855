// SPDX-License-Identifier: Apache-2.0
// Reports of this process to the service manager (systemd): its state, one line about it, and that it is
// alive. Without a service manager (NOTIFY_SOCKET is not set) the functions do nothing.
//
// Thread-safety: none. The main thread owns it.
#pragma once

#include <string>

#include "lib/base/clock.h"

namespace wss::daemon {

class ServiceManager {
  public:
    // Reads the watchdog interval (WATCHDOG_USEC).
    ServiceManager();

    void ready(const std::string& status) const;
    void reloading() const;
    void stopping() const;
    // Reports a step of a start or stop. The service manager does not kill the process during the next
    // `at_most`.
    void goes_on(const char* where, const std::string& what, Nanoseconds at_most) const;
    // Must be called more often than the unit's WatchdogSec=. Otherwise the process is killed and restarted.
    void alive(const std::string& status) const;

    // A quarter of the watchdog interval, or zero if there is no watchdog.
    Nanoseconds alive_every() const { return alive_every_; }

  private:
    Nanoseconds alive_every_{};
};

}  // namespace wss::daemon
