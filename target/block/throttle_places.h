// SPDX-License-Identifier: Apache-2.0
// ThrottlePlaces: the first arrival times of the refused commands of one flow (throttle.h).
//
// An initiator repeats a refused command with another tag, so a command is identified by its CDB. Of several
// commands with the same CDB, the first to arrive gets the oldest place.
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
    // Command `key` arrives. Removes its first arrival time and returns it, or returns nullopt if the command
    // has no place.
    std::optional<Nanoseconds> take(uint64_t key, Nanoseconds now) noexcept;
    // Command `key`, which first arrived at `first`, is refused. If there are too many places, the oldest
    // are kept.
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
