// SPDX-License-Identifier: Apache-2.0
// TakeWatch: detects a peer that no longer accepts what is sent to it. The connection calls it every
// kTakeTick.
#pragma once

#include <cstdint>

#include "lib/base/clock.h"

namespace wss::fabric::verbs {

// A connection closes after one to two ticks, 15 000 to 30 000 ms, in which no request completed. This is not
// longer than the 30 s after which a block target gives up an initiator. A device that gets no answer at all
// closes the connection earlier (kRetries).
constexpr Nanoseconds kTakeTick = from_s(15);

class TakeWatch {
  public:
    // `done` is the number of work requests completed so far. `waits` means that the completion of another
    // one is outstanding. Returns true if one was also outstanding at the previous call and none has
    // completed since.
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
