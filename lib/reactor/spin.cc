// SPDX-License-Identifier: Apache-2.0
#include "lib/reactor/spin.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

namespace wss::reactor {

// A turn without work takes a few microseconds. A turn that takes this long was interrupted by another
// thread.
constexpr Nanoseconds kTurnAlone = from_us(25);
// Time without spinning after an interruption. After each attempt to spin, the thread may have to wait for a
// whole time slice of other threads.
constexpr Nanoseconds kBusyFor = from_ms(20);
// Interval of load checks. A check takes a few microseconds.
constexpr Nanoseconds kLookEvery = from_ms(10);

unsigned threads_running(const char* loadavg) noexcept {
    unsigned running = 0;
    return std::sscanf(loadavg, "%*s %*s %*s %u/", &running) == 1 ? running : 0;
}

// True if more threads are runnable at this instant than there are processors.
static bool others_wait() noexcept {
    static const unsigned processors = std::max(std::thread::hardware_concurrency(), 1u);
    const int file = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    char text[64];
    const ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    text[std::max<ssize_t>(got, 0)] = 0;
    return threads_running(text) > processors;
}

bool may_spin(Clock& clock, Nanoseconds turn_began) noexcept {
    static thread_local Nanoseconds busy_until{0};
    static thread_local Nanoseconds look_at{0};
    Nanoseconds now = clock.now();
    if (now < busy_until) return false;
    bool alone = now - turn_began < kTurnAlone;
    if (alone && now >= look_at) {
        look_at = now + kLookEvery;
        alone = !others_wait();
    }
    if (!alone) busy_until = now + kBusyFor;
    return alone;
}

}  // namespace wss::reactor
