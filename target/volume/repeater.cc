// SPDX-License-Identifier: Apache-2.0
#include "target/volume/repeater.h"

#include <chrono>
#include <condition_variable>

namespace wss::volume {

constexpr std::chrono::seconds kEvery{1};

void Repeater::begin(std::function<bool()> attempt) {
    std::lock_guard lock(m_);
    wanted_ = true;
    if (running_) return;
    running_ = true;
    thread_ = std::jthread(
        [this, attempt = std::move(attempt)](const std::stop_token& stop) { run(stop, attempt); });
}

void Repeater::run(const std::stop_token& stop, const std::function<bool()>& attempt) {
    std::condition_variable_any stopped;
    std::unique_lock lock(m_);
    for (;;) {
        if (stopped.wait_for(lock, stop, kEvery, [&] { return stop.stop_requested(); })) return;
        wanted_ = false;
        lock.unlock();
        const bool done = attempt();
        lock.lock();
        if (!done || wanted_) continue;
        running_ = false;
        return;
    }
}

}  // namespace wss::volume
