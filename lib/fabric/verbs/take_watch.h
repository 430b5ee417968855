// SPDX-License-Identifier: Apache-2.0
// TakeWatch: whether a peer still takes what is sent to it. Looked at every kTakeTick.
#pragma once

#include <cstdint>

#include "lib/base/clock.h"

namespace wss::fabric::verbs {

// A connection ends after one to two ticks, 15 000 to 30 000 ms, in which nothing completed: no more than the
// 30 s after which a target of block storage gives up an initiator. A device that gets no answer at all ends
// it earlier (kRetries).
constexpr Nanoseconds kTakeTick = from_s(15);

class TakeWatch {
  public:
    // `done`: work requests that are completed so far. `waits`: the completion of another is awaited.
    // True: one was awaited at the look before as well, and none has come since.
    bool is_stuck(bool waits, uint32_t done) noexcept {
        const bool stuck = waits && waited_ && done == done_;
        waited_ = waits;
        done_ = done;
        return stuck;
    }

  private:
    bool waited_ = false;
    uint32_t done_ = 0;
};

}  // namespace wss::fabric::verbs
