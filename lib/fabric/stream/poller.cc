// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/stream/poller.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/fabric/stream/engine.h"

namespace wss::fabric::stream {

constexpr uint64_t kTimerToken = 0;  // generations begin at 1, so no object has this token

Watched::~Watched() {
    if (poller_ != nullptr) poller_->forget(*this);
}

Status EventPoller::start() {
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    timer_ = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!epoll_ || !timer_)
        return Status::from_errno(errno, "cannot create a poller: raise the limit of open files (ulimit -n)");
    epoll_event event{.events = EPOLLIN, .data = {.u64 = kTimerToken}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event) != 0)
        return Status::from_errno(errno, "cannot watch the poller's timer");
    staging_.resize(kStagingBytes);
    return Status::ok();
}

EventPoller::~EventPoller() {
    WSS_ASSERT(connections_ == 0, "a poller outlives its connections");
    for (Entry& entry : entries_)  // a listener may outlive its poller, and then gets no events
        if (entry.object != nullptr) entry.object->poller_ = nullptr;
}

void EventPoller::enrol(Watched& object) {
    if (object.poller_ == this) return;
    if (free_entries_.empty()) {
        free_entries_.push_back(static_cast<uint32_t>(entries_.size()));
        entries_.emplace_back();
    }
    uint32_t index = free_entries_.back();
    free_entries_.pop_back();
    entries_[index].object = &object;
    object.poller_ = this;
    object.token_ = uint64_t{entries_[index].generation} << 32 | index;
}

Watched* EventPoller::find(uint64_t token) noexcept {
    auto index = static_cast<uint32_t>(token);
    if (index >= entries_.size() || entries_[index].generation != token >> 32) return nullptr;
    return entries_[index].object;
}

void EventPoller::forget(Watched& object) noexcept {
    if (object.poller_ != this) return;
    auto index = static_cast<uint32_t>(object.token_);
    entries_[index].object = nullptr;
    if (++entries_[index].generation == 0) entries_[index].generation = 1;
    free_entries_.push_back(index);
    object.poller_ = nullptr;
    object.deadline_ = kNever;
}

Status EventPoller::watch(Watched& object, int fd, uint32_t epoll_events) {
    enrol(object);
    epoll_event event{.events = epoll_events | EPOLLET, .data = {.u64 = object.token_}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        return Status::from_errno(errno, "cannot watch a descriptor");
    return Status::ok();
}

void EventPoller::set_deadline(Watched& object, Nanoseconds deadline) noexcept {
    enrol(object);
    object.deadline_ = deadline;
    if (deadline < timer_deadline_) arm_timer(deadline);
}

void EventPoller::arm_timer(Nanoseconds deadline) noexcept {
    timer_deadline_ = deadline;
    itimerspec when{};
    if (deadline != kNever) {
        // A time of zero would disarm the timer.
        int64_t count = std::max<int64_t>(deadline.count, 1);
        when.it_value = {.tv_sec = count / 1'000'000'000, .tv_nsec = count % 1'000'000'000};
    }
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

// Deadlines are rare (connecting, closing) and mostly cancelled: one scan when the earliest one passes is
// cheaper than keeping them sorted.
size_t EventPoller::expire() noexcept {
    uint64_t expirations;
    [[maybe_unused]] ssize_t drained = read(timer_.get(), &expirations, sizeof expirations);
    Nanoseconds time = now();
    size_t fired = 0;
    for (size_t i = 0; i < entries_.size(); ++i) {  // uses an index, because on_deadline() may add entries
        Watched* object = entries_[i].object;
        if (object == nullptr || object->deadline_ > time) continue;
        object->deadline_ = kNever;
        object->on_deadline();
        ++fired;
    }
    Nanoseconds next = kNever;
    for (const Entry& entry : entries_)
        if (entry.object != nullptr) next = std::min(next, entry.object->deadline_);
    arm_timer(next);
    return fired;
}

size_t EventPoller::take_events() noexcept {
    epoll_event events[64];
    int count = epoll_wait(epoll_.get(), events, 64, 0);
    // If all events are taken, the next poll() needs no system call. A reactor that sleeps after this turn is
    // woken at once by new events. One that does not sleep takes them a turn later.
    drained_ = count > 0 && count < 64;
    size_t handled = 0;
    bool expired = false;
    for (int i = 0; i < count; ++i) {
        if (events[i].data.u64 == kTimerToken) {
            expired = true;
        } else if (Watched* object = find(events[i].data.u64)) {
            object->on_ready(events[i].events);
            ++handled;
        }
    }
    return handled + (expired ? expire() : 0);
}

void EventPoller::activate(Engine& engine) noexcept {
    ListNode<ActiveTag>& node = engine;
    if (!node.linked()) active_.push_back(engine);
}

size_t EventPoller::poll() noexcept {
    size_t events = 0;
    if (!std::exchange(drained_, false) && kernel_may_have_news()) events = take_events();
    look_around();
    // Connections that become active from here on get their turn in the next poll(), which bounds this one.
    List<Engine, ActiveTag> turn;
    turn.splice_back(active_);
    while (Engine* engine = turn.pop_front()) events += engine->progress();
    return events;
}

bool EventPoller::arm() noexcept {
    return active_.empty();
}

size_t EventPoller::deliver(Connection& connection, ConnectionHandler& handler) noexcept {
    size_t count = std::exchange(completions_used_, 0);
    if (count > 0) handler.on_completions(connection, {completions_.data(), count});
    return count;
}

}  // namespace wss::fabric::stream
