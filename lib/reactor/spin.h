// SPDX-License-Identifier: Apache-2.0
// Whether it is worth while to look for work instead of sleeping.
//
// Spinning answers sooner only where a processor would be idle otherwise. Where others wait for it, those may
// well be whom this thread waits for: 8-key reads over tcp, one partition and four client threads on two busy
// processors, went from 3 300 to 34 000 a second without.
//
// Thread-safety: each thread has its own state.
#pragma once

#include "lib/base/clock.h"

namespace wss::reactor {

// After a turn that began at `turn_began` and found nothing. False: somebody else had the processor
// meanwhile, so sleep; and it stays false for a while. Nobody is asked by yielding: since Linux 6.18 who
// yields gives his claim away, and then waits for a time slice of the others at each of his next wake-ups.
bool may_spin(Clock& clock, Nanoseconds turn_began) noexcept;

// What the kernel says in /proc/loadavg; 0: it is something else. Asked now and then while there is nothing
// to do: whoever spins while others wait is seldom interrupted in it, as it is short, and yet takes time that
// they want (of 22 us for 8-key reads over tcp on a busy machine, 7).
unsigned threads_running(const char* loadavg) noexcept;

}  // namespace wss::reactor
