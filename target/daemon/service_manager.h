// SPDX-License-Identifier: Apache-2.0
// Reports of this process to the service manager (systemd): its state, one line about it, and that it is
// alive. Without a service manager (NOTIFY_SOCKET is not set) the functions do nothing.
//
// Thread-safety: none; the main thread owns it.
#pragma once

#include <string>

#include "lib/base/clock.h"

namespace wss::daemon {

class ServiceManager {
  public:
    // Reads how often alive() must come (WATCHDOG_USEC).
    ServiceManager();

    void ready(const std::string& status) const;
    void reloading() const;
    void stopping() const;
    // A start or a stop. It takes so long at most until the next report: the process is not killed before.
    void goes_on(const char* where, const std::string& what, Nanoseconds at_most) const;
    // Without it for the time of the unit's WatchdogSec= the process is killed and started again.
    void alive(const std::string& status) const;

    // A quarter of the time after which the service manager gives up; zero: it does not watch.
    Nanoseconds alive_every() const { return alive_every_; }

  private:
    Nanoseconds alive_every_{};
};

}  // namespace wss::daemon
