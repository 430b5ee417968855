// SPDX-License-Identifier: Apache-2.0
// The limits of an image (rbd_qos_*_limit) for which librbd keeps requests back before it sends them.
//
// Thread-safety: all of it may be called from any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/io/rbd/calls.h"

namespace wss::io::rbd {

// What librbd uses for an image: names and values.
using Settings = std::vector<std::pair<std::string, std::string>>;

class Throttles {
  public:
    void read(const Settings& settings, Nanoseconds now);
    bool any() const noexcept { return any_.load(); }
    std::string text() const;  // "rbd_qos_iops_limit = 1"; empty: there are none
    // When what librbd had at `begun`, `load` with it, is let go at the latest. At most a day later, or after
    // the limits were changed: how long the former ones would have taken does not count any more.
    Nanoseconds let_go(Nanoseconds begun, const Load& load) const noexcept;

  private:
    mutable std::mutex m_;
    std::string text_;  // guarded by m_
    std::atomic<bool> any_{false};
    // Per second, the lowest of each kind; 0: there is none.
    std::atomic<uint64_t> requests_{0}, bytes_{0};
    std::atomic<int64_t> changed_at_{0};
};

}  // namespace wss::io::rbd
