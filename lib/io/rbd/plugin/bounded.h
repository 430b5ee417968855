// SPDX-License-Identifier: Apache-2.0
// Calls of librbd and librados that may block for as long as a cluster is silent, with a limit.
//
// The call runs on a thread of its own. When it does not return in time it is abandoned: the thread goes on,
// and what the call captured stays alive with it. So a call captures by value, and by shared_ptr what it
// uses.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <thread>

namespace wss::io::rbd {

template <typename T>
std::optional<T> within_seconds(uint32_t seconds, std::function<T()> call) {
    auto promise = std::make_shared<std::promise<T>>();
    std::future<T> answer = promise->get_future();
    std::thread([promise, call = std::move(call)]() mutable {
        // Signals are for the main thread; librados' own threads inherit this.
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        T result = call();
        call = nullptr;  // what it held is released before its end is known
        promise->set_value(std::move(result));
    }).detach();
    if (answer.wait_for(std::chrono::seconds(seconds)) != std::future_status::ready) return std::nullopt;
    return answer.get();
}

}  // namespace wss::io::rbd
