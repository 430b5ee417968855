// SPDX-License-Identifier: Apache-2.0
// Decides whether a thread may spin for work instead of sleeping.
//
// Spinning answers sooner only where a processor would be idle otherwise. Where other threads wait for the
// processor, this thread may be waiting for those. Example: without spinning, the rate of 8-key reads over
// tcp, with one partition and four client threads on two busy processors, rose from 3 300 to 34 000 per
// second.
//
// Thread-safety: each thread has its own state.
#pragma once

#include "lib/base/clock.h"

namespace wss::reactor {

// Call after a turn that began at `turn_began` and found no work. Returns false when another thread had the
// processor meanwhile: then sleep. It stays false for a while. The check does not use sched_yield(): since
// Linux 6.18 a thread that yields gives up its claim, and waits for a time slice of the others at each of its
// next wake-ups.
bool may_spin(Clock& clock, Nanoseconds turn_began) noexcept;

// Number of runnable threads in the text of /proc/loadavg; 0 if the text has another form. may_spin() reads
// it now and then while there is no work: a spin is short and so is seldom interrupted when other threads
// wait, yet it takes time from them (7 of 22 us for 8-key reads over tcp on a busy machine).
unsigned threads_running(const char* loadavg) noexcept;

}  // namespace wss::reactor
