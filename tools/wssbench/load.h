// SPDX-License-Identifier: Apache-2.0
// Load: threads that each keep a number of operations in flight, and what is measured of them.
//
// A Lane is one such thread with its reactor. Operations end on the lane's thread, which counts them and
// begins the next; the measuring thread only looks at the counters. One latency in kLatencyEvery is taken: a
// look at the clock for each would be a good part of what is measured over shared memory.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "lib/base/histogram.h"
#include "lib/reactor/reactor.h"
#include "tools/wssbench/accesses.h"
#include "tools/wssbench/measure.h"
#include "tools/wssbench/program.h"

namespace wss::wssbench {

constexpr uint32_t kLatencyEvery = 8;

class Lane {
  public:
    Lane();
    // Its thread has ended.
    virtual ~Lane() = default;
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    // The measuring thread's.
    void start(int processor);  // -1: anywhere
    void ask_to_end();
    void join();
    uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }
    // Every connection carries operations.
    virtual bool ready() const { return operations() > 0; }
    // Nothing is in flight any more; with `why` if it ended by itself because of that.
    bool over() const { return over_.load(std::memory_order_acquire); }
    Status failure_of_it();
    void measure(bool on) { measuring_.store(on, std::memory_order_relaxed); }
    // Takes the time of the last operation too, so that span() is known. Before start().
    void take_span() { takes_span_ = true; }
    // After join().
    const Histogram& latencies() const { return latencies_; }
    struct Span {
        Nanoseconds first, last;  // begin of the first operation, end of the last one; 0: there was none
    };
    Span span() const { return span_; }

  protected:
    // On the lane's thread. begin() starts the operations (now or when connected), wind_down() is called once
    // after ask_to_end() or failed(): when all is over, call finished().
    virtual void begin() = 0;
    virtual void wind_down() = 0;

    // Called before the first operation, once connected: a replay's time begins there.
    void operations_begin() noexcept;
    void count_one(Nanoseconds begun) noexcept;
    // The time that count_one() wants, or none.
    Nanoseconds stamp() noexcept;
    bool ending() const { return ending_; }
    void failed(const Status& why);
    void finished();

    SystemClock clock_;
    reactor::Reactor reactor_;

  private:
    void end();
    std::atomic<uint64_t> operations_{0};
    std::atomic<bool> measuring_{false}, over_{false};
    bool ending_ = false;
    bool takes_span_ = false;
    Span span_{};
    uint32_t stamps_ = 0;
    Histogram latencies_;  // nanoseconds
    std::mutex m_;
    Status why_;  // guarded by m_
    std::thread thread_;
};

using Lanes = std::vector<std::unique_ptr<Lane>>;

// Starts the lanes, lets them warm up, measures, ends them. A window of no seconds lasts until the lanes have
// nothing left to do. `server` may be null.
Result<Sample> measure_lanes(Lanes& lanes, const Window& window, const Settings& settings, Program* server);

}  // namespace wss::wssbench
