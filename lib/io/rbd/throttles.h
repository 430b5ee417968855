// SPDX-License-Identifier: Apache-2.0
// Throttles: the limits of an image (rbd_qos_*_limit), for which librbd delays requests before it sends them.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/io/rbd/calls.h"

namespace wss::io::rbd {

// The settings that librbd uses for an image: names and values.
using Settings = std::vector<std::pair<std::string, std::string>>;

class Throttles {
  public:
    void read(const Settings& settings, Nanoseconds now);
    bool any() const noexcept { return any_.load(); }
    std::string text() const;  // "rbd_qos_iops_limit = 1"; empty: there are none
    // The latest time at which librbd sends a call that began at `begun`, when librbd had the calls `load`,
    // including this one. The delay counts from `begun`, or from the last change of the limits if that is
    // later, because librbd applies new limits at once. It is at most a day.
    Nanoseconds let_go(Nanoseconds begun, const Load& load) const noexcept;

  private:
    mutable std::mutex m_;
    std::string text_;  // guarded by m_
    std::atomic<bool> any_{false};
    // The lowest limit of each kind, per second; 0: there is none.
    std::atomic<uint64_t> requests_{0}, bytes_{0};
    std::atomic<int64_t> changed_at_{0};
};

}  // namespace wss::io::rbd
