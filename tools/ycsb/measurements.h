// SPDX-License-Identifier: Apache-2.0
// Latencies by operation, and the report in YCSB's format.
//
// Latencies are recorded in nanoseconds, and printed in whole microseconds as in YCSB. The JSON of kvctl
// bench has nanoseconds. *Intended* latencies start when an operation was due by the target rate, not when
// the thread started it, so they include the cost of a stalled server.
//
// Thread-safety: none. Each thread records into its own object, and merge() adds the objects up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/histogram.h"
#include "lib/base/status.h"

namespace wss::ycsb {

class Measurements {
  public:
    struct Series {
        Histogram latency;  // nanoseconds
        std::map<std::string, uint64_t> returns;
    };

    // `name` is "READ", "UPDATE-TXN" …
    void record(const std::string& name, const Status& status, Nanoseconds latency);
    void record_intended(const std::string& name, const Status& status, Nanoseconds latency);
    void merge(const Measurements& other);

    uint64_t operations() const { return operations_; }
    uint64_t failed() const { return failed_; }
    void count_operation(bool ok) {
        ++operations_;
        failed_ += ok ? 0 : 1;
    }
    const std::map<std::string, Series>& series() const { return series_; }

  private:
    std::map<std::string, Series> series_;
    uint64_t operations_ = 0, failed_ = 0;
};

// YCSB's names: "OK", "NOT_FOUND", "ERROR" …
std::string_view return_code(const Status& status);

// The report: "[OVERALL], RunTime(ms), …" and a block per operation.
std::string report(const Measurements& measurements, Nanoseconds run_time,
                   const std::vector<double>& percentiles);
// The part "READ: Count=…, Max=…" of the status line.
std::string summary(const Measurements& measurements);

}  // namespace wss::ycsb
