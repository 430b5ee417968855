// SPDX-License-Identifier: Apache-2.0
#include "target/cache/remote_state.h"

#include <signal.h>

#include <exception>
#include <thread>
#include <utility>

#include "lib/base/log.h"

namespace wss::se {

uint64_t RemoteState::bytes() const {
    std::lock_guard lock(m_);
    return bytes_;
}

std::string RemoteState::trouble() const {
    std::lock_guard lock(m_);
    return trouble_;
}

// The size that an RS reports first is where the volume begins: only a change of it is followed.
void RemoteState::report(uint64_t bytes, std::string trouble) {
    std::lock_guard lock(m_);
    if (is_lost()) return;
    bytes_ = bytes;
    if (!std::exchange(reported_, true)) passed_on_ = bytes;
    trouble_ = std::move(trouble);
    pass_on();
}

void RemoteState::pass_on_again() {
    std::lock_guard lock(m_);
    pass_on();
}

bool RemoteState::refuse(std::string why) {
    std::lock_guard lock(m_);
    if (is_lost() || trouble_ == why) return false;
    trouble_ = std::move(why);
    return true;
}

void RemoteState::lose(std::string why) {
    std::lock_guard lock(m_);
    if (lost_.exchange(true, std::memory_order_acq_rel)) return;
    trouble_ = std::move(why);
    pass_on();
}

void RemoteState::watch(io::Backend::SizeChanged changed) {
    const bool wanted = static_cast<bool>(changed);
    {
        std::lock_guard calls(changed_lock_);
        changed_ = std::move(changed);
    }
    std::lock_guard lock(m_);
    watched_ = wanted;
    pass_on();
}

void RemoteState::pass_on() {
    if (!watched_ || !has_news() || std::exchange(following_, true)) return;
    try {
        std::thread([self = shared_from_this()] {
            // Signals are for the main thread.
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_BLOCK, &all, nullptr);
            self->follow();
        }).detach();
    } catch (const std::exception& error) {
        // pass_on_again() tries again.
        log::warning("no thread to pass on the state of real storage: {}", error.what());
        following_ = false;
    }
}

void RemoteState::follow() {
    std::unique_lock lock(m_);
    while (watched_ && has_news()) {
        loss_passed_on_ = is_lost();
        const uint64_t before = std::exchange(passed_on_, bytes_), after = loss_passed_on_ ? 0 : bytes_;
        lock.unlock();
        {
            std::lock_guard calls(changed_lock_);
            if (auto call = changed_) call(before, after);
        }
        lock.lock();
    }
    following_ = false;
}

}  // namespace wss::se
