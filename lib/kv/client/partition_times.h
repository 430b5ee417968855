// SPDX-License-Identifier: Apache-2.0
// PartitionTimes: the partitions' times of day, as far as a session knows them. They advance with the
// monotonic clock, so steps of the local time of day do not affect them.
//
// Thread-safety: none; belongs to the session.
#pragma once

#include <optional>
#include <vector>

#include "lib/kv/hlc.h"
#include "lib/reactor/reactor.h"

namespace wss::kv {

class PartitionTimes {
  public:
    PartitionTimes(reactor::Reactor& reactor, HybridClock& own) : reactor_(reactor), own_(own) {}

    void greeted(uint32_t partition, uint32_t partitions, uint64_t ticks);
    // Returns the local time of day for a partition that has not sent its greeting.
    Timestamp of(uint32_t partition) const noexcept;
    Timestamp slowest() const noexcept;  // among those that have sent a greeting
    // Stores the clock that a refusal from `partition` contained. Returns true if that clock was stepped.
    bool learn(uint32_t partition, Timestamp theirs) noexcept;

  private:
    struct Known {
        uint64_t ticks = 0;
        Nanoseconds at{};
    };
    reactor::Reactor& reactor_;
    HybridClock& own_;
    std::vector<std::optional<Known>> times_;  // indexed by partition; none: no greeting yet
};

}  // namespace wss::kv
