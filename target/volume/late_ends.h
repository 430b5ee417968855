// SPDX-License-Identifier: Apache-2.0
// LateEnds: background tasks that finish commands whose caller has timed out. Each has its own thread.
//
// A task waits for the late completion, then finishes the command. It may use the owner of the LateEnds,
// because the owner calls stop() before it is destroyed: stop() stops all tasks and returns when none is
// running.
//
// Thread-safety: all methods may be called from any thread. The caller of stop() must hold nothing that a
// task waits for, such as a lock.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "lib/base/status.h"

namespace wss::volume {

class LateEnds {
  public:
    // Must return soon after `stop` is requested.
    using Task = std::function<void(const std::stop_token& stop)>;

    // Takes over a task, or fails.
    using Start = std::function<Status(Task task)>;

    // `start`: starts the tasks, in place of a thread for each. Its owner ends them before stop().
    explicit LateEnds(Start start = {}) : start_(std::move(start)) {}
    ~LateEnds() { stop(); }
    LateEnds(const LateEnds&) = delete;
    LateEnds& operator=(const LateEnds&) = delete;

    // Fails after stop(), and when no thread can be created.
    Status begin(Task task);
    // Stops all tasks and joins their threads. After that begin() fails.
    void stop();

  private:
    struct One {
        std::shared_ptr<std::atomic<bool>> over;
        std::jthread thread;
    };
    const Start start_;
    std::mutex m_;
    // Guarded by m_.
    std::list<One> all_;
    bool stopped_ = false;
};

}  // namespace wss::volume
