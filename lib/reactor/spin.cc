// SPDX-License-Identifier: Apache-2.0
#include "lib/reactor/spin.h"

#include <sched.h>

namespace wss::reactor {

// A yield to nobody takes well below a microsecond; one to somebody at least a switch to him and back.
constexpr Nanoseconds kYieldAlone = from_us(4);
// Each further try may cost a whole time slice of the others.
constexpr Nanoseconds kBusyFor = from_ms(20);

bool may_spin(Clock& clock) noexcept {
    static thread_local Nanoseconds busy_until{0};
    Nanoseconds before = clock.now();
    if (before < busy_until) return false;
    sched_yield();
    Nanoseconds after = clock.now();
    if (after - before < kYieldAlone) return true;
    busy_until = after + kBusyFor;
    return false;
}

}  // namespace wss::reactor
