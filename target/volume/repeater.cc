// SPDX-License-Identifier: Apache-2.0
#include "target/volume/repeater.h"

#include <chrono>

namespace wss::volume {

constexpr std::chrono::seconds kEvery{1};

Repeater::Repeater(std::function<bool()> attempt, bool with_thread) : attempt_(std::move(attempt)) {
    if (with_thread) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Repeater::begin() noexcept {
    {
        std::lock_guard lock(m_);
        wanted_ = true;
    }
    changed_.notify_all();
}

void Repeater::run(const std::stop_token& stop) {
    std::unique_lock lock(m_);
    while (changed_.wait(lock, stop, [this] { return wanted_; })) {
        changed_.wait_for(lock, stop, kEvery, [] { return false; });
        if (stop.stop_requested()) return;
        wanted_ = false;
        lock.unlock();
        const bool done = attempt_();
        lock.lock();
        wanted_ = wanted_ || !done;
    }
}

}  // namespace wss::volume
