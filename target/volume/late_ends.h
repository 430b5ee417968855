// SPDX-License-Identifier: Apache-2.0
// LateEnds: background tasks that finish commands whose caller has timed out. Each has its own thread.
//
// If no thread can be created for a task, this is tried again each second: the command has begun, and only
// its task can finish it.
//
// A task waits for the late completion, then finishes the command. It may use the owner of the LateEnds,
// because the owner calls stop() before it is destroyed: stop() stops all tasks and returns when none is
// running.
//
// Thread-safety: all methods may be called from any thread. The caller of stop() must hold nothing that a
// task waits for, such as a lock.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "lib/base/status.h"
#include "target/volume/repeater.h"

namespace wss::volume {

class LateEnds {
  public:
    // Must return soon after `stop` is requested.
    using Task = std::function<void(const std::stop_token& stop)>;

    // Takes over a task, or fails.
    using Start = std::function<Status(Task task)>;

    // `start`: starts the tasks, in place of a thread for each. Its owner ends them before stop(). Without
    // `repeats`, a task that could not be started waits for the next one.
    explicit LateEnds(Start start = {}, bool repeats = true)
        : start_(std::move(start)), repeater_([this] { return start_waiting().is_ok(); }, repeats) {}
    ~LateEnds() { stop(); }
    LateEnds(const LateEnds&) = delete;
    LateEnds& operator=(const LateEnds&) = delete;

    // Fails only after stop().
    Status begin(Task task);
    // Stops all tasks and joins their threads. Drops those that have not started. After that begin() fails.
    void stop();

  private:
    struct One {
        std::shared_ptr<std::atomic<bool>> over;
        std::jthread thread;
    };
    // Fails unless all tasks have started.
    Status start_waiting();
    Status start(const std::shared_ptr<Task>& task);  // m_ held

    const Start start_;
    std::mutex m_;
    // Guarded by m_.
    std::list<One> all_;
    std::deque<std::shared_ptr<Task>> waiting_;  // in the order of begin()
    bool stopped_ = false;
    Repeater repeater_;  // the last member, so that its thread ends first
};

}  // namespace wss::volume
