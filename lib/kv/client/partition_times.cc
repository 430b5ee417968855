// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/partition_times.h"

#include <algorithm>

namespace wss::kv {

void PartitionTimes::greeted(uint32_t partition, uint32_t partitions, uint64_t ticks) {
    times_.resize(partitions);
    times_[partition] = {.ticks = ticks, .at = reactor_.now()};
}

Timestamp PartitionTimes::of(uint32_t partition) const noexcept {
    if (partition >= times_.size() || !times_[partition]) return Timestamp::make(own_.wall_ticks(), 0);
    const Known& known = *times_[partition];
    return Timestamp::make(known.ticks + static_cast<uint64_t>((reactor_.now() - known.at).count / 1000), 0);
}

bool PartitionTimes::learn(uint32_t partition, Timestamp theirs) noexcept {
    constexpr uint64_t kStep_ticks = 1'000'000;  // more than a reply takes
    if (partition >= times_.size() || theirs.ticks() > kTicksMax / 2) return false;
    const uint64_t expected = of(partition).ticks();
    times_[partition] = {.ticks = theirs.ticks(), .at = reactor_.now()};
    return std::max(expected, theirs.ticks()) - std::min(expected, theirs.ticks()) > kStep_ticks;
}

Timestamp PartitionTimes::slowest() const noexcept {
    std::optional<Timestamp> slowest;
    for (uint32_t i = 0; i < times_.size(); ++i)
        if (times_[i]) slowest = std::min(slowest.value_or(of(i)), of(i));
    return slowest.value_or(Timestamp{});
}

}  // namespace wss::kv
