// SPDX-License-Identifier: Apache-2.0
// A request from another thread to a reactor, with a bounded wait.
#pragma once

#include <chrono>
#include <future>
#include <memory>

#include "lib/base/status.h"

namespace wss::daemon {

// A reactor answers within one turn. If it takes longer than this, it is stuck, and the client gets an error.
inline constexpr std::chrono::seconds kReactorAnswers{5};

// Calls `ask` with a callback for the answer. `ask` must make a reactor call it. Returns the answer, or
// kTimedOut after `limit`.
template <typename T, typename Ask>
Result<T> ask_reactor(Ask&& ask, std::chrono::seconds limit = kReactorAnswers) {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    ask([promise](T value) { promise->set_value(std::move(value)); });
    if (future.wait_for(limit) != std::future_status::ready)
        return failure(Code::kTimedOut,
                       "the reactor did not answer within {} s; the target is overloaded or stuck",
                       limit.count());
    return future.get();
}

}  // namespace wss::daemon
