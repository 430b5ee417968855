// SPDX-License-Identifier: Apache-2.0
// Asking a reactor from another thread, in bounded time.
#pragma once

#include <chrono>
#include <future>
#include <memory>

#include "lib/base/status.h"

namespace wss::daemon {

// A reactor answers within a turn; one that does not for so long is stuck, and the client should hear it.
inline constexpr std::chrono::seconds kReactorAnswers{5};

// `ask` gets the callback that takes the answer, and has it called on a reactor.
template <typename T, typename Ask>
Result<T> ask_reactor(Ask&& ask, std::chrono::seconds limit = kReactorAnswers) {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    ask([promise](T value) { promise->set_value(std::move(value)); });
    if (future.wait_for(limit) != std::future_status::ready)
        return failure(Code::kTimedOut,
                       "the reactor does not answer in {} s; the target is overloaded or stuck",
                       limit.count());
    return future.get();
}

}  // namespace wss::daemon
