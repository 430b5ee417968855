// SPDX-License-Identifier: Apache-2.0
#include "lib/reactor/spin.h"

namespace wss::reactor {

// A turn that finds nothing takes a few microseconds; one that takes this long was interrupted by somebody.
constexpr Nanoseconds kTurnAlone = from_us(25);
// Each further try may cost a whole time slice of the others.
constexpr Nanoseconds kBusyFor = from_ms(20);

bool may_spin(Clock& clock, Nanoseconds turn_began) noexcept {
    static thread_local Nanoseconds busy_until{0};
    Nanoseconds now = clock.now();
    if (now < busy_until) return false;
    if (now - turn_began < kTurnAlone) return true;
    busy_until = now + kBusyFor;
    return false;
}

}  // namespace wss::reactor
