// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/header_watch.h"

namespace wss::io::rbd {

namespace {

constexpr Nanoseconds kTryAgain = from_s(30);

}  // namespace

void HeaderWatch::keep(Nanoseconds now) {
    std::lock_guard lock(m_);
    if (ended_ || state_ == State::kBeginning || state_ == State::kWatches) return;
    if (state_ == State::kBroken)
        unwatch();
    else if (tried_.count != 0 && now - tried_ < kTryAgain)
        return;
    tried_ = now;
    rados_completion_t completion = nullptr;
    if (rados_aio_create_completion2(this, began, &completion) < 0) return;
    if (rados_aio_watch(pool_.get(), header_.c_str(), completion, &cookie_, notified, broken, this) < 0)
        return rados_aio_release(completion);
    state_ = State::kBeginning;
    ++questions_;
}

// No changes were reported before the watch began, so the header counts as changed.
void HeaderWatch::began(rados_completion_t completion, void* watch) {
    auto& self = *static_cast<HeaderWatch*>(watch);
    const int result = rados_aio_get_return_value(completion);
    rados_aio_release(completion);
    std::lock_guard lock(self.m_);
    --self.questions_;
    self.answered_.notify_all();
    if (result < 0) self.state_ = State::kNone;  // librados has released it, even if it broke meanwhile
    if (result < 0) return;
    if (self.state_ == State::kBeginning) self.state_ = State::kWatches;
    if (self.ended_) return self.unwatch();
    self.changed_.store(true);
    self.wake_();
}

void HeaderWatch::unwatch() {
    state_ = State::kNone;
    rados_completion_t completion = nullptr;
    if (rados_aio_create_completion2(this, unwatched, &completion) < 0) return;
    if (rados_aio_unwatch(pool_.get(), cookie_, completion) < 0) return rados_aio_release(completion);
    ++questions_;
}

void HeaderWatch::unwatched(rados_completion_t completion, void* watch) {
    auto& self = *static_cast<HeaderWatch*>(watch);
    rados_aio_release(completion);
    std::lock_guard lock(self.m_);
    --self.questions_;
    self.answered_.notify_all();
}

// The client that changes the header waits until every watcher has acknowledged. librbd treats an answer that
// is not empty as that of the lock's owner. This is harmless here, because librbd never sends an empty
// notification.
void HeaderWatch::notified(void* watch, uint64_t notice, uint64_t cookie, uint64_t, void*, size_t bytes) {
    auto& self = *static_cast<HeaderWatch*>(watch);
    std::lock_guard lock(self.m_);
    if (self.pool_ == nullptr) return;
    const std::string_view answer = bytes == 0 ? kAnswer : std::string_view();
    rados_notify_ack(self.pool_.get(), self.header_.c_str(), notice, cookie, answer.data(),
                     static_cast<int>(answer.size()));
    if (self.ended_) return;
    self.changed_.store(true);
    self.wake_();
}

void HeaderWatch::broken(void* watch, uint64_t, int) {
    auto& self = *static_cast<HeaderWatch*>(watch);
    std::lock_guard lock(self.m_);
    if (self.ended_) return;
    self.state_ = State::kBroken;
    self.changed_.store(true);
    self.wake_();
}

void HeaderWatch::end() {
    std::lock_guard lock(m_);
    ended_ = true;
    if (state_ == State::kWatches || state_ == State::kBroken) unwatch();
}

bool HeaderWatch::wait_for_end(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(m_);
    const bool over = answered_.wait_until(lock, deadline, [this] { return questions_ == 0; });
    if (over) pool_.reset();
    return over;
}

void HeaderWatch::wait_for_end() {
    std::unique_lock lock(m_);
    answered_.wait(lock, [this] { return questions_ == 0; });
    pool_.reset();
}

}  // namespace wss::io::rbd
