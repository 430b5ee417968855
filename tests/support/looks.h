// SPDX-License-Identifier: Apache-2.0
// A source without events that counts how often a reactor polls it. Processor time would be a reliable
// measure only on an idle machine.
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

// An idle reactor polls for 50 us, about a thousand times, before it sleeps. A reactor that spins for a tenth
// of a second polls tens of thousands of times, even on a busy machine. So does a reactor that wakes up
// without reason.
constexpr uint64_t kLooksWhenIdle = 6000;

}  // namespace wss::test
