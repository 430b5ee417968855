// SPDX-License-Identifier: Apache-2.0
// PartitionTimes: the partitions' times of day, as far as a session knows them. They go on with the monotonic
// clock: steps of the own time of day do not move them.
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
    // The own time of day of one that has not greeted.
    Timestamp of(uint32_t partition) const noexcept;
    Timestamp slowest() const noexcept;  // of those that have greeted
    // A refusal of `partition` named its clock. True: the clock was stepped.
    bool learn(uint32_t partition, Timestamp theirs) noexcept;

  private:
    struct Known {
        uint64_t ticks = 0;
        Nanoseconds at{};
    };
    reactor::Reactor& reactor_;
    HybridClock& own_;
    std::vector<std::optional<Known>> times_;  // by partition; none: it has not greeted
};

}  // namespace wss::kv
