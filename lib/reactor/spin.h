// SPDX-License-Identifier: Apache-2.0
// Decides whether a thread may spin for work instead of sleeping.
//
// Spinning reduces latency only if the processor would otherwise be idle. If other threads wait for the
// processor, the spinning thread may be waiting for one of them. Example: without spinning, the rate of 8-key
// reads over tcp, with one partition and four client threads on two busy processors, rose from 3300 to 34000
// per second.
//
// Thread-safety: each thread has its own state.
#pragma once

#include "lib/base/clock.h"

namespace wss::reactor {

// Call this after a turn that began at `turn_began` and found no work. Returns false if another thread had
// the processor meanwhile, or if more threads are runnable than there are processors. The caller must then
// sleep. The result remains false for 20 ms. The check does not use sched_yield(): since Linux 6.18 a thread
// that yields gives up its claim to processor time, and waits for a time slice of the others at each of its
// next wake-ups.
bool may_spin(Clock& clock, Nanoseconds turn_began) noexcept;

// Returns the number of runnable threads in the text of /proc/loadavg, or 0 if the text has another form.
// may_spin() reads this file every 10 ms while there is no work. A spin is short, so it is seldom interrupted
// when other threads wait. But each spin takes time from these threads: for 8-key reads over tcp on a busy
// machine, 7 of 22 us.
unsigned threads_running(const char* loadavg) noexcept;

}  // namespace wss::reactor
