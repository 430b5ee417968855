// SPDX-License-Identifier: Apache-2.0
// Load: threads that each keep a number of operations in flight, and the measurement of these.
//
// A LoadThread is one such thread with its reactor. Operations end on its thread, which counts them and
// starts the next ones. The measuring thread only reads the counters. Only one latency in kLatencyEvery is
// measured: over shared memory, reading the clock for each operation would be a large part of the time.
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

class LoadThread {
  public:
    LoadThread();
    // REQUIRES: its thread has ended.
    virtual ~LoadThread() = default;
    LoadThread(const LoadThread&) = delete;
    LoadThread& operator=(const LoadThread&) = delete;

    // These are for the measuring thread.
    void start(int processor);  // -1: any processor
    void ask_to_end();
    void join();
    uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }
    // True if every connection has operations in flight.
    virtual bool ready() const { return operations() > 0; }
    // True if the thread has ended and nothing is in flight; see failure_of_it().
    bool over() const { return over_.load(std::memory_order_acquire); }
    Status failure_of_it();
    void measure(bool on) { measuring_.store(on, std::memory_order_relaxed); }
    // Enables span(). Must be called before start().
    void take_span() { takes_span_ = true; }
    // These may be called after join().
    const Histogram& latencies() const { return latencies_; }
    struct Span {
        Nanoseconds first, last;  // start of the first operation, and end of the last one; 0: none
    };
    Span span() const { return span_; }

  protected:
    // These are called on this thread. begin() starts the operations, immediately or once connected.
    // wind_down() is called once, after ask_to_end() or failed(). When nothing is left in flight, the thread
    // must call finished().
    virtual void begin() = 0;
    virtual void wind_down() = 0;

    // Must be called after connecting and before the first operation. The time of a replay begins with it.
    void operations_begin() noexcept;
    // `begun`: result of stamp() at the start of the operation.
    void count_one(Nanoseconds begun) noexcept;
    // The time now, or 0 if the latency of this operation is not measured.
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

using LoadThreads = std::vector<std::unique_ptr<LoadThread>>;

// Starts the threads, warms up, measures, and ends the threads. A window of 0 seconds lasts until the threads
// have no more operations; no processor times are measured for it. The server processor time is the sum over
// `servers`, or unknown if there are none.
Result<Sample> measure_threads(LoadThreads& threads, const Window& window, const Settings& settings,
                               const std::vector<const Program*>& servers = {});

}  // namespace wss::wssbench
