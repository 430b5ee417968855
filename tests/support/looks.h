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

// A reactor without news looks for 50 us, about a thousand times, before it sleeps. One that spins through a
// tenth of a second looks tens of thousands of times, even on a busy machine, and so does one that wakes for
// nothing.
constexpr uint64_t kLooksWhenIdle = 6000;

}  // namespace wss::test
