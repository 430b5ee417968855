// SPDX-License-Identifier: Apache-2.0
// The core of every measurement: samples, their summary, interruption by the user, and processors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "tools/wssbench/context.h"

namespace wss::wssbench {

struct Window {
    double warm_up = 0.3, seconds = 1;
};

// The result of one measurement. Unknown values are negative and not shown.
struct Sample {
    double rate = 0;  // operations a second
    double latency_us = -1, p99_us = -1;
    double client_cpu_us = -1, server_cpu_us = -1;  // processor time per operation
    double storage_bytes = -1;  // bytes per operation that the serving process read from storage; not a
                                // column
    // Further columns. Of numbers, the median is reported; of other values, the last one. "latency", the
    // distribution of latencies {percent, us}, becomes {percent, us, turns}: the medians, and all turns.
    Json more;
};

// The row of several samples: medians, and their spread. "spread_percent" is the largest deviation from the
// median, in percent of the median, or null for a single sample. "turns" has the values of each turn:
// {"rate": [...], ...}.
Json summary(const std::vector<Sample>& samples);

// Rounded to five digits; zero if it is not finite.
double rounded(double value);

// True after SIGINT or SIGTERM: measuring then ends at once, and finished measurements are kept.
bool interrupted();
void catch_interrupts();
// Returns false if interrupted.
bool sleep_for(double seconds);

double seconds_now();
double own_cpu_seconds();
// Bytes that a process ("self" or its id) has read from storage so far, by the kernel's accounting. Bytes
// from the page cache are not included. Negative if unknown.
double storage_bytes_of(const std::string& process);
// The processors that this process may use, in order.
std::vector<int> processors();
// Clients run on the first half of the processors, servers on the second half. If there is only one
// processor, both use it.
std::vector<int> client_processors();
std::vector<int> server_processors();
// `thread`: 0 for the calling thread.
void pin_thread(int thread, const std::vector<int>& to);

// Processors, model, memory, kernel, system and load of this machine.
Json machine();

}  // namespace wss::wssbench
