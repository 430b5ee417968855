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

// Lets others run first. False: somebody did run, so sleep; and it stays false for a while.
bool may_spin(Clock& clock) noexcept;

}  // namespace wss::reactor
