// SPDX-License-Identifier: Apache-2.0
// State shared by the threads of a run, and the loop of a thread with several connections. It is used by
// runner.cc and lanes.cc.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tools/ycsb/runner.h"

namespace wss::ycsb {

// State shared by the threads of a run.
struct Shared {
    Shared(Workload& w, const RunOptions& o) : workload(w), options(o) {}

    Workload& workload;
    const RunOptions& options;
    SystemClock clock;
    std::atomic<bool> ended{false};      // the run was ended by time or by an error; RunOptions::stop ends it
                                         // as well
    std::atomic<bool> measuring{false};  // the warm-up has ended
    std::atomic<uint64_t> operations{0};
    std::mutex mutex;  // protects the members below
    std::condition_variable changed;
    uint32_t ready = 0, done = 0;
    bool go = false;
    Status failure;
    Measurements measurements;

    bool should_end() const {
        return ended.load(std::memory_order_relaxed) || (options.stop != nullptr && options.stop->load());
    }
};

// Runs operations on every lane until the run ends. `operations` is the maximum number; 0: no maximum.
Measurements run_lanes(Shared& shared, uint32_t number, uint64_t operations, Lanes& lanes);

}  // namespace wss::ycsb
