// SPDX-License-Identifier: Apache-2.0
// Reactor: the poll loop of one thread.
//
// A reactor polls its sources (completion queues, disk queues, sockets), fires due timers and runs tasks that
// other threads posted. While there is work, it never sleeps. After `spin` without work, it arms every source
// and sleeps in epoll until a source has an event, a timer is due or a task is posted. So an idle process
// uses no CPU time. It sleeps earlier if spinning would keep other threads from running (spin.h).
//
// The deterministic simulation calls step() itself, with its own clock, and never run().
//
// Thread-safety: a reactor, its sources and timers belong to the thread that runs it. Other threads may call
// only post() and stop(), and other functions only before run() begins. Ownership: the users own sources and
// timers, and must remove or cancel them before they destroy them.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/status.h"

namespace wss::reactor {

// An event source, polled by the reactor.
class Source {
  public:
    virtual ~Source() = default;
    // Does a bounded amount of work. Returns the number of events handled, or 0 if there was nothing to do.
    virtual size_t poll() noexcept = 0;
    // Prepares to sleep. Returns true if fd() will become readable at the next event. Returns false if events
    // are already waiting; the reactor then polls again. Called only after poll() returned 0.
    virtual bool arm() noexcept { return true; }
    // The descriptor to wait for, or -1 for a source that gets work only as a result of another source's
    // work.
    virtual int fd() const noexcept { return -1; }
};

// A deadline. Intrusive and reusable: setting or cancelling it allocates nothing once the reactor's heap has
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
    uint64_t order_ = 0;  // equal deadlines fire in the order in which they were set
    size_t heap_index_ = kUnset;
};

class Reactor {
  public:
    struct Options {
        // How long to poll for work before sleeping. Zero if the process may use only one CPU: spinning would
        // keep the threads for which the reactor waits from running. kNever: the user only calls step(), and
        // the reactor needs no descriptors.
        Nanoseconds spin = default_spin();
    };
    static Nanoseconds default_spin() noexcept;

    explicit Reactor(Clock& clock) : Reactor(clock, Options{}) {}
    Reactor(Clock& clock, Options options);
    ~Reactor();
    Reactor(const Reactor&) = delete;
    Reactor& operator=(const Reactor&) = delete;
    // Fails with kExhausted if no descriptors were available for the reactor. The reactor can then only poll
    // (step()): the owner must not call turn() or run().
    Status ready() const;

    // Sources are polled in the order in which they were added. May be called from within a poll() or a
    // timer.
    void add(Source& source);
    void remove(Source& source);

    // Sets `timer` to fire at `deadline`, which replaces its earlier deadline. kNever cancels the timer.
    void set(Timer& timer, Nanoseconds deadline);
    void cancel(Timer& timer);

    // Runs `task` on the reactor's thread in one of the next turns. For the control plane, because it
    // allocates and locks.
    void post(std::function<void()> task);

    // Executes one turn: polls every source once, fires due timers, runs posted tasks. Returns the number of
    // events handled.
    size_t step() noexcept;
    // The earliest deadline, or kNever.
    Nanoseconds next_deadline() const noexcept;
    // Executes one turn. Then sleeps if there is no work, and either there has been none for `spin` or
    // spinning is not useful (may_spin()). For callers that have an end condition of their own.
    void turn() noexcept;
    // Executes turns until stop().
    void run() noexcept;
    void stop() noexcept;

    Clock& clock() noexcept { return clock_; }
    // Updates now() between turns.
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
    Descriptor epoll_, wake_;
    int error_ = 0;                 // errno if they could not be created
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
