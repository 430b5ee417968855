// SPDX-License-Identifier: Apache-2.0
// ThrottlePlaces: when the commands of one flow that were refused came first (throttle.h).
//
// An initiator sends a refused command again under another tag, so that a command is known by its CDB.
// Several with the same CDB are alike: whichever comes has the oldest place.
//
// Thread-safety: belongs to its reactor. Allocates once, when the first command is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/clock.h"

namespace wss::block {

class ThrottlePlaces {
  public:
    // The command `key` comes: when it came first; nullopt: now.
    std::optional<Nanoseconds> take(uint64_t key, Nanoseconds now) noexcept;
    // It is refused, and came `first`. Of too many the oldest are kept.
    void keep(uint64_t key, Nanoseconds first, Nanoseconds now) noexcept;

  private:
    struct Place {
        uint64_t key;
        Nanoseconds first;
        Nanoseconds refused;
    };
    void drop(size_t index) noexcept;

    std::vector<Place> places_;
};

}  // namespace wss::block
