// SPDX-License-Identifier: Apache-2.0
// The core of every measurement: what one gave, several in a row summed up, and the user's Ctrl-C.
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

// What one measurement gave. What is not known stays below zero and is not shown.
struct Sample {
    double rate = 0;  // operations a second
    double latency_us = -1, p99_us = -1;
    double client_cpu_us = -1, server_cpu_us = -1;  // processor time for each operation
    Json more;  // further columns of the row; of numbers the median counts, of other values the last
};

// The row of several samples: medians, and how far apart they were ("spread": the largest distance from the
// median, in percent of it; null of a single one). "turns" has the values that they were made of:
// {"rate": [of each turn], …}.
Json summary(const std::vector<Sample>& samples);

// Set by SIGINT and SIGTERM: measuring ends at once, what is done is kept.
bool interrupted();
void catch_interrupts();
// False when interrupted.
bool sleep_for(double seconds);

double seconds_now();
double own_cpu_seconds();
// The processors that this process may use, in order.
std::vector<int> processors();
// Who runs where: clients on the first half of the processors, servers on the second; everybody everywhere
// when there is only one.
std::vector<int> client_processors();
std::vector<int> server_processors();
// `thread` 0: the calling one.
void pin_thread(int thread, const std::vector<int>& to);

// "2 × AMD EPYC, Linux 6.1.0, …".
Json machine();

}  // namespace wss::wssbench
