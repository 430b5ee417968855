// SPDX-License-Identifier: Apache-2.0
// Calls of librbd and librados that may block for as long as a cluster is silent, with a limit.
//
// The call runs on a thread of its own. When it does not return in time it is abandoned: the thread goes on,
// and what the call captured stays alive with it. So a call captures by value, and by shared_ptr what it
// uses.
#pragma once

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>

#include "lib/base/status.h"

namespace wss::io::rbd {

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline in_seconds(uint32_t seconds) {
    return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

// Set once, when the program ends: nobody waits for an opening or a resize any more.
inline std::atomic<bool> program_ends{false};

template <typename T>
class BoundedCall {
  public:
    // Fails when there is no thread; then the call is not made.
    Status start(std::function<T()> call) {
        auto promise = std::make_shared<std::promise<T>>();
        answer_ = promise->get_future();
        try {
            std::thread([promise, call = std::move(call)]() mutable {
                // Signals are for the main thread; librados' own threads inherit this.
                sigset_t all;
                sigfillset(&all);
                pthread_sigmask(SIG_BLOCK, &all, nullptr);
                T result = call();
                call = nullptr;  // what it held is released before its end is known
                promise->set_value(std::move(result));
            }).detach();
        } catch (const std::system_error& error) {
            return Status::from_errno(error.code().value(), "no thread for a call of Ceph");
        }
        return Status::ok();
    }

    // Once. Nothing: it has not returned.
    std::optional<T> wait_until(Deadline deadline) {
        if (answer_.wait_until(deadline) != std::future_status::ready) return std::nullopt;
        return answer_.get();
    }
    // … nor will be waited for, when the program ends.
    std::optional<T> wait_while_program_runs(Deadline deadline) {
        while (!program_ends.load()) {
            const Deadline look = std::min(deadline, std::chrono::steady_clock::now() + kLook);
            if (auto answer = wait_until(look)) return answer;
            if (look == deadline) return std::nullopt;
        }
        return wait_until(std::chrono::steady_clock::now());
    }

  private:
    static constexpr auto kLook = std::chrono::milliseconds(50);
    std::future<T> answer_;
};

// Why an opening or a resize was abandoned.
inline Status abandoned(std::string late) {
    if (program_ends.load()) return Status(Code::kClosed, "the program ends");
    return Status(Code::kTimedOut, std::move(late));
}

}  // namespace wss::io::rbd
