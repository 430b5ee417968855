// SPDX-License-Identifier: Apache-2.0
// LateEnds: what is left to do of a command whose caller gave up waiting, each on a thread of its own.
//
// Such a task waits for the answer that did not come in time, and ends the command. Its owner may be used by
// it: stop() returns when none runs any more. A task that still waits is given up then.
//
// Thread-safety: all methods may be called from any thread. stop() must not hold what tasks wait for.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "lib/base/status.h"

namespace wss::volume {

class LateEnds {
  public:
    // Returns soon after `stop` is requested.
    using Task = std::function<void(const std::stop_token& stop)>;

    LateEnds() = default;
    ~LateEnds() { stop(); }
    LateEnds(const LateEnds&) = delete;
    LateEnds& operator=(const LateEnds&) = delete;

    // Fails after stop(), and when there is no thread.
    Status begin(Task task);
    // For good.
    void stop();

  private:
    struct One {
        std::shared_ptr<std::atomic<bool>> over;
        std::jthread thread;
    };
    std::mutex m_;
    // Guarded by m_.
    std::list<One> all_;
    bool stopped_ = false;
};

}  // namespace wss::volume
