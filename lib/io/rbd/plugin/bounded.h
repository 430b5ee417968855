// SPDX-License-Identifier: Apache-2.0
// BoundedCall: a call of librbd or librados with a time limit, because it may block while a cluster is
// silent.
//
// Each call runs on a separate thread. A call that does not return in time is abandoned: its thread continues
// and keeps the captured objects alive. So a call must capture by value, and use objects through shared_ptr.
//
// librados and librbd throw when no descriptor or thread is left. Such a call fails, and its captured objects
// are leaked, because the release of half-constructed objects is undefined. kLeaksMax limits the leaks.
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

// Set once, when the program ends: waits for openings and resizes then end.
inline std::atomic<bool> program_ends{false};

// Number of calls that threw. Once it has reached kLeaksMax, no image is opened.
inline std::atomic<uint32_t> leaks{0};
constexpr uint32_t kLeaksMax = 16;

// Returns the result of `call`, or its exception as an error.
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
    // Fails if no thread can be started. The call is then not made.
    Status start(std::function<Status()> call) {
        auto promise = std::make_shared<std::promise<Status>>();
        answer_ = promise->get_future();
        try {
            std::thread([promise, call = std::move(call)]() mutable {
                // Only the main thread handles signals. librados' own threads inherit this mask.
                sigset_t all;
                sigfillset(&all);
                pthread_sigmask(SIG_BLOCK, &all, nullptr);
                promise->set_value(result_of(call));
            }).detach();
        } catch (const std::system_error& error) {
            answer_ = {};
            return Status::from_errno(error.code().value(), "cannot start a thread for a call to Ceph");
        }
        return Status::ok();
    }

    // True after start() until the result is taken.
    bool is_started() const { return answer_.valid(); }
    // Returns the result of the call, which can be taken once, or nullopt if the call has not returned.
    std::optional<Status> wait_until(Deadline deadline) {
        if (answer_.wait_until(deadline) != std::future_status::ready) return std::nullopt;
        return answer_.get();
    }
    // The same, but also stops waiting when the program ends or when `ends` returns true.
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
            held.reset();  // releases the captured objects before the caller gets the result
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

// The error of an abandoned opening or resize. `late` is its text if the program is not ending.
inline Status abandoned(std::string late) {
    if (program_ends.load()) return Status(Code::kClosed, "the program is ending");
    return Status(Code::kTimedOut, std::move(late));
}

}  // namespace wss::io::rbd
