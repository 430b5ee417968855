// SPDX-License-Identifier: Apache-2.0
#include "lib/reactor/reactor.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/reactor/spin.h"

namespace wss::reactor {

Timer::~Timer() {
    WSS_ASSERT(!is_set(), "a timer is cancelled before it is destroyed");
}

Nanoseconds Reactor::default_spin() noexcept {
    // Computed once, because it needs a system call and some callers use it before every request.
    static const bool alone = [] {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) < 2;
    }();
    return alone ? Nanoseconds{0} : from_us(50);
}

Reactor::Reactor(Clock& clock, Options options) : clock_(clock), options_(options), now_(clock.now()) {
    if (options.spin == kNever) return;
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
    if (epoll_ && wake_ && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0) return;
    error_ = errno;
    epoll_.reset();
    wake_.reset();
}

Status Reactor::ready() const {
    if (error_ == 0) return Status::ok();
    return Status::from_errno(error_, "cannot create the file descriptors of a reactor (ulimit -n)");
}

Reactor::~Reactor() {
    for (Timer* timer : heap_) timer->heap_index_ = Timer::kUnset;
}

void Reactor::watch(Source& source) {
    if (source.fd() < 0 || !epoll_) return;
    // Level-triggered: a source that does not drain its descriptor is reported again.
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &source}};
    int result = epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, source.fd(), &event);
    WSS_ASSERT(result == 0 || errno == EEXIST, "a source's descriptor can be watched");
}

void Reactor::forget(Source& source) {
    if (source.fd() >= 0 && epoll_) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, source.fd(), nullptr);
}

void Reactor::add(Source& source) {
    sources_.push_back(&source);
    watch(source);
}

void Reactor::remove(Source& source) {
    forget(source);
    auto found = std::find(sources_.begin(), sources_.end(), &source);
    if (found == sources_.end()) return;
    // During a turn the vector is being traversed. So this leaves a hole, which is removed at the end of the
    // turn.
    if (in_turn_)
        *found = nullptr;
    else
        sources_.erase(found);
}

size_t Reactor::poll_sources() noexcept {
    size_t events = 0;
    // The loop uses an index, because poll() may add sources.
    for (size_t i = 0; i < sources_.size(); ++i)
        if (sources_[i] != nullptr) events += sources_[i]->poll();
    return events;
}

size_t Reactor::run_posted() noexcept {
    if (!has_posted_.load(std::memory_order_acquire)) return 0;
    std::vector<std::function<void()>> tasks;
    {
        std::lock_guard lock(posted_lock_);
        tasks.swap(posted_);
        has_posted_.store(false, std::memory_order_relaxed);
    }
    for (auto& task : tasks) task();
    return tasks.size();
}

size_t Reactor::step() noexcept {
    now_ = clock_.now();
    in_turn_ = true;
    size_t events = poll_sources();
    events += fire_timers();
    events += run_posted();
    in_turn_ = false;
    std::erase(sources_, nullptr);
    return events;
}

void Reactor::post(std::function<void()> task) {
    {
        std::lock_guard lock(posted_lock_);
        posted_.push_back(std::move(task));
        has_posted_.store(true, std::memory_order_release);
    }
    if (!wake_) return;
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(wake_.get(), &one, sizeof one);  // fails: already awake
}

void Reactor::stop() noexcept {
    stopping_.store(true, std::memory_order_release);
    if (!wake_) return;
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(wake_.get(), &one, sizeof one);
}

bool Reactor::arm_sources() noexcept {
    for (Source* source : sources_)
        if (!source->arm()) return false;
    return true;
}

void Reactor::sleep() noexcept {
    int timeout_ms = -1;
    if (Nanoseconds next = next_deadline(); next != kNever) {
        int64_t wait_ns = std::max<int64_t>(next.count - clock_.now().count, 0);
        // The timeout is rounded up: waking a little early would mean spinning until the deadline.
        timeout_ms = static_cast<int>(std::min<int64_t>((wait_ns + 999'999) / 1'000'000, 1'000'000));
    }
    epoll_event events[8];
    int count = epoll_wait(epoll_.get(), events, 8, timeout_ms);
    for (int i = 0; i < count; ++i) {
        if (events[i].data.ptr != nullptr) continue;
        uint64_t posts;
        [[maybe_unused]] ssize_t drained = read(wake_.get(), &posts, sizeof posts);
    }
}

void Reactor::turn() noexcept {
    if (step() > 0) {
        idle_since_ = kNever;
        return;
    }
    if (options_.spin.count > 0) {
        if (idle_since_ == kNever) idle_since_ = now_;
        if (now_ - idle_since_ < options_.spin && may_spin(clock_, now_)) return;
    }
    if (arm_sources()) sleep();
    idle_since_ = kNever;
}

void Reactor::run() noexcept {
    WSS_ASSERT(epoll_, "its owner has checked ready()");
    while (!stopping_.load(std::memory_order_acquire)) turn();
    stopping_.store(false, std::memory_order_relaxed);
}

// --- timers: a binary heap whose nodes know their index, so that cancel() is O(log n) ---

bool Reactor::before(const Timer* a, const Timer* b) const noexcept {
    return a->deadline_ != b->deadline_ ? a->deadline_ < b->deadline_ : a->order_ < b->order_;
}

void Reactor::place(size_t index, Timer* timer) noexcept {
    heap_[index] = timer;
    timer->heap_index_ = index;
}

void Reactor::sift_up(size_t index) noexcept {
    Timer* timer = heap_[index];
    for (; index > 0 && before(timer, heap_[(index - 1) / 2]); index = (index - 1) / 2)
        place(index, heap_[(index - 1) / 2]);
    place(index, timer);
}

void Reactor::sift_down(size_t index) noexcept {
    Timer* timer = heap_[index];
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= heap_.size()) break;
        if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
        if (!before(heap_[child], timer)) break;
        place(index, heap_[child]);
        index = child;
    }
    place(index, timer);
}

void Reactor::set(Timer& timer, Nanoseconds deadline) {
    cancel(timer);
    if (deadline == kNever) return;
    timer.deadline_ = deadline;
    timer.order_ = timers_set_++;
    heap_.push_back(&timer);
    timer.heap_index_ = heap_.size() - 1;
    sift_up(timer.heap_index_);
}

void Reactor::cancel(Timer& timer) {
    if (!timer.is_set()) return;
    size_t index = timer.heap_index_;
    Timer* last = heap_.back();
    heap_.pop_back();
    timer.heap_index_ = Timer::kUnset;
    if (last == &timer) return;
    place(index, last);
    sift_up(index);
    sift_down(last->heap_index_);
}

size_t Reactor::fire_timers() noexcept {
    size_t fired = 0;
    // `limit` bounds the work of this turn, in case timers set themselves again for the current time.
    for (size_t limit = heap_.size(); limit > 0 && !heap_.empty() && heap_[0]->deadline_ <= now_; --limit) {
        Timer* due = heap_[0];
        cancel(*due);
        due->fire_(due->context_);
        ++fired;
    }
    return fired;
}

Nanoseconds Reactor::next_deadline() const noexcept {
    return heap_.empty() ? kNever : heap_[0]->deadline_;
}

}  // namespace wss::reactor
