// SPDX-License-Identifier: Apache-2.0
// A source that has nothing and counts how often it is looked at: what a reactor does while it has no work.
// Processor time would say the same on a quiet machine only.
#pragma once

#include "lib/reactor/reactor.h"

namespace wss::test {

struct Looks final : reactor::Source {
    uint64_t count = 0;
    size_t poll() noexcept override {
        ++count;
        return 0;
    }
};

// A reactor without news looks for 50 us, about a thousand times, before it sleeps, and again after each of
// the few wake-ups that starting and stopping bring. One that spins through a tenth of a second looks a
// million times, one that wakes for nothing each millisecond a hundred thousand times.
constexpr uint64_t kLooksWhenIdle = 20'000;

}  // namespace wss::test
