// SPDX-License-Identifier: Apache-2.0
// Reactor: the poll loop of one core.
//
// A reactor turns over its sources (completion queues, disk queues, sockets), fires the timers that are due
// and runs what other threads posted. While there is work it never sleeps. After `spin` without work it arms
// every source and sleeps in epoll until one has news, a timer is due or somebody posts: an idle process uses
// no CPU.
//
// The deterministic simulation calls step() itself, with a clock of its own, and never run().
//
// Thread-safety: a reactor, its sources and timers belong to the thread that runs it. Only post() and stop()
// may be called from elsewhere (and everything before run() begins). Ownership: sources and timers are owned
// by their users, who remove them before they die.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/status.h"

namespace wss::reactor {

// Something that has work to do now and then.
class Source {
  public:
    virtual ~Source() = default;
    // Does a bounded amount of work; returns how many events it handled, 0 when idle.
    virtual size_t poll() noexcept = 0;
    // Prepares to sleep: returns true when fd() will become readable as soon as there is news, false when
    // there is news already (poll again). Called only after poll() returned 0.
    virtual bool arm() noexcept { return true; }
    // What to wait for; -1 for a source that only has work when another source had some.
    virtual int fd() const noexcept { return -1; }
};

// A deadline. Intrusive and reusable: setting or cancelling one allocates nothing once the reactor's heap has
// grown.
class Timer {
  public:
    using Fire = void (*)(void* context) noexcept;
    Timer(Fire fire, void* context) : fire_(fire), context_(context) {}
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    bool is_set() const { return heap_index_ != kUnset; }

  private:
    friend class Reactor;
    static constexpr size_t kUnset = SIZE_MAX;
    Fire fire_;
    void* context_;
    Nanoseconds deadline_{};
    uint64_t order_ = 0;  // equal deadlines fire in the order they were set
    size_t heap_index_ = kUnset;
};

class Reactor {
  public:
    struct Options {
        // How long to look for work before sleeping. Zero where the machine has one CPU: spinning would keep
        // whoever has work for us from running. kNever: it is stepped, never run; needs no descriptors.
        Nanoseconds spin = default_spin();
    };
    static Nanoseconds default_spin() noexcept;

    explicit Reactor(Clock& clock) : Reactor(clock, Options{}) {}
    Reactor(Clock& clock, Options options);
    ~Reactor();
    Reactor(const Reactor&) = delete;
    Reactor& operator=(const Reactor&) = delete;

    // Sources are polled in the order they were added. May be called from within a poll() or a timer.
    void add(Source& source);
    void remove(Source& source);

    // (Re)sets `timer` to fire at `deadline`, or never.
    void set(Timer& timer, Nanoseconds deadline);
    void cancel(Timer& timer);

    // Runs `task` on the reactor's thread, soon. For the control plane: it may allocate and lock.
    void post(std::function<void()> task);

    // One turn: every source once, timers due, tasks posted. Returns the number of events handled.
    size_t step() noexcept;
    // The earliest deadline, or kNever.
    Nanoseconds next_deadline() const noexcept;
    // One turn; then sleeps if there was no work for `spin` and there is none. For loops that end by
    // themselves.
    void turn() noexcept;
    // Turns until stop().
    void run() noexcept;
    void stop() noexcept;

    Clock& clock() noexcept { return clock_; }
    // Brings now() up to date between turns.
    void refresh() noexcept { now_ = clock_.now(); }
    // The time at the start of this turn.
    Nanoseconds now() const noexcept { return now_; }

  private:
    size_t poll_sources() noexcept;
    size_t fire_timers() noexcept;
    size_t run_posted() noexcept;
    bool arm_sources() noexcept;
    void sleep() noexcept;
    void watch(Source& source);
    void forget(Source& source);
    bool before(const Timer* a, const Timer* b) const noexcept;
    void place(size_t index, Timer* timer) noexcept;
    void sift_up(size_t index) noexcept;
    void sift_down(size_t index) noexcept;

    Clock& clock_;
    const Options options_;
    Nanoseconds now_{};
    int epoll_fd_ = -1;
    int wake_fd_ = -1;
    std::vector<Source*> sources_;  // nullptr: removed during this turn
    std::vector<Timer*> heap_;      // earliest deadline first
    uint64_t timers_set_ = 0;
    bool in_turn_ = false;
    Nanoseconds idle_since_ = kNever;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> has_posted_{false};  // saves the lock on turns without posted tasks
    std::mutex posted_lock_;
    std::vector<std::function<void()>> posted_;  // guarded by posted_lock_
};

}  // namespace wss::reactor
