// SPDX-License-Identifier: Apache-2.0
// Calls of librbd and librados that may block for as long as a cluster is silent, with a limit.
//
// The call runs on a thread of its own. When it does not return in time it is abandoned: the thread goes on,
// and what the call captured stays alive with it. So a call captures by value, and by shared_ptr what it
// uses.
//
// librados and librbd throw when there is no descriptor or no thread left. A call that ends so fails, and
// what it captured is leaked: to release what is half made is not defined. The leaks are counted, and are not
// repeated without end.
#pragma once

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/base/status.h"
#include "lib/io/rbd/room.h"

namespace wss::io::rbd {

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline in_seconds(uint32_t seconds) {
    return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

// Set once, when the program ends: nobody waits for an opening or a resize any more.
inline std::atomic<bool> program_ends{false};

// Calls that ended by an exception. From kLeaksMax on no image is opened.
inline std::atomic<uint32_t> leaks{0};
constexpr uint32_t kLeaksMax = 16;

// What `call` returns, or throws.
template <typename Call>
Status caught(Call&& call) {
    try {
        return call();
    } catch (const std::exception& thrown) {
        ++leaks;
        return exhausted(thrown);
    }
}

class BoundedCall {
  public:
    // Fails when there is no thread; then the call is not made.
    Status start(std::function<Status()> call) {
        auto promise = std::make_shared<std::promise<Status>>();
        answer_ = promise->get_future();
        try {
            std::thread([promise, call = std::move(call)]() mutable {
                // Signals are for the main thread; librados' own threads inherit this.
                sigset_t all;
                sigfillset(&all);
                pthread_sigmask(SIG_BLOCK, &all, nullptr);
                promise->set_value(result_of(call));
            }).detach();
        } catch (const std::system_error& error) {
            return Status::from_errno(error.code().value(), "no thread for a call of Ceph");
        }
        return Status::ok();
    }

    // Once. Nothing: it has not returned.
    std::optional<Status> wait_until(Deadline deadline) {
        if (answer_.wait_until(deadline) != std::future_status::ready) return std::nullopt;
        return answer_.get();
    }
    // … nor will be waited for, when the program ends or `ends` returns true.
    std::optional<Status> wait_while_program_runs(
        Deadline deadline, const std::function<bool()>& ends = [] { return false; }) {
        while (!program_ends.load() && !ends()) {
            const Deadline look = std::min(deadline, std::chrono::steady_clock::now() + kLook);
            if (auto answer = wait_until(look)) return answer;
            if (look == deadline) return std::nullopt;
        }
        return wait_until(std::chrono::steady_clock::now());
    }

  private:
    static Status result_of(std::function<Status()>& call) {
        auto held = std::make_unique<std::function<Status()>>(std::move(call));
        Status result = caught([&held] {
            Status returned = (*held)();
            held.reset();  // what it held is released before its end is known
            return returned;
        });
        if (held != nullptr) keep(std::move(held));
        return result;
    }
    static void keep(std::unique_ptr<std::function<Status()>> call) {
        static std::mutex m;
        static auto* const all = new std::vector<std::unique_ptr<std::function<Status()>>>;
        std::lock_guard lock(m);
        all->push_back(std::move(call));
    }

    static constexpr auto kLook = std::chrono::milliseconds(50);
    std::future<Status> answer_;
};

// Why an opening or a resize was abandoned.
inline Status abandoned(std::string late) {
    if (program_ends.load()) return Status(Code::kClosed, "the program ends");
    return Status(Code::kTimedOut, std::move(late));
}

}  // namespace wss::io::rbd
