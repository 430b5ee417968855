// SPDX-License-Identifier: Apache-2.0
// BlockingCall: a call that may wait for a disk, on a thread of its own, so that a reactor does not wait.
//
// Thread-safety: none; it belongs to one thread. Until poll() returns a result, the call owns what it uses.
// Lifetime: the destructor waits for the call.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "lib/base/assert.h"
#include "lib/base/status.h"
#include "lib/base/thread.h"

namespace wss {

class BlockingCall {
  public:
    BlockingCall() = default;
    ~BlockingCall() {
        if (thread_.joinable()) thread_.join();
    }
    BlockingCall(const BlockingCall&) = delete;
    BlockingCall& operator=(const BlockingCall&) = delete;

    // Only when no call is in progress. Fails if the system allows no more threads. `purpose` is that of
    // start_thread().
    Status begin(std::string_view purpose, std::function<Status()> call) {
        WSS_ASSERT(!is_in_progress(), "one call at a time");
        has_returned_.store(false, std::memory_order_relaxed);
        auto thread = start_thread(purpose, [this, call = std::move(call)] {
            result_ = call();
            has_returned_.store(true, std::memory_order_release);
        });
        if (!thread) return thread.status();
        thread_ = std::move(*thread);
        return Status::ok();
    }
    // True until poll() has returned the result.
    bool is_in_progress() const { return thread_.joinable(); }
    // The result, once; nullopt if the call has not returned.
    std::optional<Status> poll() {
        if (!is_in_progress() || !has_returned_.load(std::memory_order_acquire)) return std::nullopt;
        return wait();
    }

    // Waits for the call in progress, and returns its result.
    Status wait() {
        thread_.join();
        return std::move(result_);
    }

  private:
    std::thread thread_;
    std::atomic<bool> has_returned_{false};
    Status result_;  // written by the thread before has_returned_
};

}  // namespace wss
