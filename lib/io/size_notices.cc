// SPDX-License-Identifier: Apache-2.0
#include "lib/io/size_notices.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "lib/base/thread.h"

namespace wss::io {

struct SizeNotices::State {
    std::atomic<uint64_t> size{0};  // written under m

    mutable std::mutex m;
    std::condition_variable news;
    // Guarded by m.
    uint64_t reported = 0;  // to the user; 0: nothing yet
    uint64_t lowest = 0;    // since `reported`; less than it while a shrink waits to be reported
    uint64_t latest = 0;
    uint64_t known = UINT64_MAX;      // maximum size with which the first user begins
    uint64_t own_limit = UINT64_MAX;  // maximum size during the user's own resize
    // The latest size that was read since that resize was seen to have taken effect; 0: none.
    uint64_t read_since_effect = 0;
    uint64_t moment = 0,
             own_moment = 0;           // number of sizes of the user; its value when an own resize ended last
    std::array<uint64_t, 64> sizes{};  // the latest of them, by number
    uint64_t own_sizes = 0;            // number of times that the user's own resize set `reported`
    bool lost = false, loss_reported = false, watched = false, stopping = false;
    uint64_t reporting_from = 0;  // the user is being notified of a size after this one; 0: it is not

    // Recursive: the callback may drop the last reference to the backend.
    std::recursive_mutex calls;
    Backend::SizeChanged call;  // guarded by `calls`, even while it runs

    bool has_news() const {
        if (lost) return !loss_reported;
        return lowest != reported || latest != reported;
    }
    void set_size() { size.store(std::min(lowest, own_limit), std::memory_order_release); }
    void forget() {
        lowest = std::min(latest, known);
        set_reported(lowest);
        set_size();
    }
    void set_reported(uint64_t bytes) {
        reported = bytes;
        sizes[++moment % sizes.size()] = bytes;
    }
    // A shrink may have taken effect even if it failed, so that a read may have found its size.
    void end_own() {
        if (own_limit < reported) sizes[++moment % sizes.size()] = own_limit;
        set_reported(reported);
        own_moment = moment;
    }
    // The smallest size of the user since then; 0: unknown.
    uint64_t low_since(uint64_t then) const {
        if (moment - then >= sizes.size()) return 0;
        uint64_t low = UINT64_MAX;
        for (; then <= moment; ++then) low = std::min(low, sizes[then % sizes.size()]);
        return low;
    }
    // The size that the user has.
    uint64_t user_size() const { return reporting_from != 0 ? reporting_from : reported; }
    void note(uint64_t bytes) { lowest = lowest == 0 ? bytes : std::min(lowest, bytes); }
    // The next notice: {before, after}.
    std::pair<uint64_t, uint64_t> take();
    // Restores the notice on which the user could not act. `own`: the user resized the storage meanwhile, so
    // only a shrink remains to be reported.
    void put_back(uint64_t before, uint64_t after, bool own);
};

std::pair<uint64_t, uint64_t> SizeNotices::State::take() {
    const uint64_t before = reported;
    if (lost) {
        loss_reported = true;
        return {before, 0};
    }
    if (lowest < reported || reported == 0) {
        set_reported(lowest);
    } else {
        forget();
    }
    return {before, reported};
}

void SizeNotices::State::put_back(uint64_t before, uint64_t after, bool own) {
    if (!watched) return;
    if (after == 0)
        loss_reported = false;
    else if (after < before || before == 0)
        note(after);
    if (!own) {
        set_reported(before);
        if (before != 0) note(before);
    }
    set_size();
}

SizeNotices::SizeNotices() : state_(std::make_shared<State>()) {}

SizeNotices::~SizeNotices() {
    std::lock_guard lock(state_->m);
    state_->stopping = true;
    state_->news.notify_one();
}

Status SizeNotices::start(uint64_t bytes, uint64_t known) {
    begin(bytes, known);
    auto thread = start_thread("changes of the storage's size", [state = state_] { run(state); });
    if (!thread) return thread.status();
    thread->detach();
    return Status::ok();
}

uint64_t SizeNotices::size() const noexcept {
    return state_->size.load(std::memory_order_acquire);
}

uint64_t SizeNotices::latest() const noexcept {
    std::lock_guard lock(state_->m);
    return state_->latest;
}

bool SizeNotices::would_cut(uint64_t bytes) const noexcept {
    std::lock_guard lock(state_->m);
    const uint64_t followed = std::min(state_->user_size(), state_->lowest);
    return followed != 0 && followed < state_->latest && bytes < state_->latest;
}

bool SizeNotices::hides_growth() const noexcept {
    std::lock_guard lock(state_->m);
    return state_->lowest < std::min(state_->user_size(), state_->latest);
}

void SizeNotices::begin(uint64_t bytes, uint64_t known) {
    std::lock_guard lock(state_->m);
    if (known != 0) state_->known = known;
    state_->latest = bytes;
    state_->forget();
}

uint64_t SizeNotices::moment() const noexcept {
    std::lock_guard lock(state_->m);
    return state_->moment;
}

bool SizeNotices::has_resized_since(uint64_t moment) const noexcept {
    std::lock_guard lock(state_->m);
    return moment < state_->own_moment;
}

bool SizeNotices::changed(uint64_t bytes) {
    return changed(bytes, moment());
}

bool SizeNotices::changed(uint64_t bytes, uint64_t moment) {
    std::lock_guard lock(state_->m);
    if (moment < state_->own_moment) {
        if (bytes >= std::min(state_->low_since(moment), state_->own_limit)) return false;
        state_->note(bytes);
        state_->set_size();
        state_->news.notify_one();
        return true;
    }
    if (bytes == state_->own_limit || state_->read_since_effect != 0) state_->read_since_effect = bytes;
    if (state_->own_limit != UINT64_MAX && bytes >= std::min(state_->own_limit, state_->reported))
        return false;
    state_->latest = bytes;
    state_->note(bytes);
    state_->set_size();
    if (!state_->watched) state_->forget();
    state_->news.notify_one();
    return true;
}

void SizeNotices::limit_own(uint64_t bytes) {
    std::lock_guard lock(state_->m);
    state_->own_limit = bytes;
    state_->read_since_effect = 0;
    state_->set_size();
}

void SizeNotices::changed_own(uint64_t bytes) {
    std::lock_guard lock(state_->m);
    state_->own_limit = UINT64_MAX;
    ++state_->own_sizes;
    const bool pending = state_->lowest < state_->user_size();
    state_->reported = state_->latest = bytes;
    state_->end_own();
    if (!pending || bytes < state_->lowest) state_->lowest = bytes;
    // Others have shrunk the storage after the resize, before the user was notified that it has ended.
    const uint64_t read = std::exchange(state_->read_since_effect, 0);
    if (read != 0 && read < bytes) {
        state_->latest = read;
        state_->note(read);
    }
    state_->set_size();
    if (state_->watched) state_->news.notify_one();
}

void SizeNotices::failed_own(uint64_t bytes) {
    std::lock_guard lock(state_->m);
    state_->end_own();
    state_->own_limit = UINT64_MAX;
    state_->read_since_effect = 0;
    state_->latest = bytes;
    state_->note(bytes);
    state_->set_size();
    if (!state_->watched) state_->forget();
    state_->news.notify_one();
}

void SizeNotices::unknown_own() {
    std::lock_guard lock(state_->m);
    state_->end_own();
}

void SizeNotices::lose() {
    std::lock_guard lock(state_->m);
    if (std::exchange(state_->lost, true)) return;
    state_->news.notify_one();
}

void SizeNotices::watch(Backend::SizeChanged changed) {
    const bool wanted = static_cast<bool>(changed);
    {
        std::lock_guard calls(state_->calls);
        state_->call = std::move(changed);
    }
    std::lock_guard lock(state_->m);
    state_->watched = wanted;
    if (wanted) state_->known = UINT64_MAX;
    if (!wanted) state_->forget();
    state_->news.notify_one();
}

std::optional<bool> SizeNotices::report() {
    std::unique_lock lock(state_->m);
    if (!state_->watched || !state_->has_news()) return std::nullopt;
    return report(*state_, lock);
}

bool SizeNotices::report(State& state, std::unique_lock<std::mutex>& lock) {
    const auto [before, after] = state.take();
    const uint64_t own_sizes = state.own_sizes;
    state.reporting_from = before;
    lock.unlock();
    bool done = true;
    {
        std::lock_guard calls(state.calls);
        if (auto call = state.call) done = call(before, after);
    }
    lock.lock();
    state.reporting_from = 0;
    if (!done) state.put_back(before, after, state.own_sizes != own_sizes);
    return done;
}

void SizeNotices::run(const std::shared_ptr<State>& state) {
    // Signals are for the main thread.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock(state->m);
    for (;;) {
        state->news.wait(lock, [&] { return state->stopping || (state->watched && state->has_news()); });
        if (state->stopping) return;
        if (!report(*state, lock)) state->news.wait_for(lock, kAgain, [&] { return state->stopping; });
    }
}

}  // namespace wss::io
