// SPDX-License-Identifier: Apache-2.0
#include "target/cache/staging.h"

#include <algorithm>

namespace wss::cache {

StagingPool::StagingPool(const wire::CacheStaging& memory, EngineIndex storage, uint32_t incarnation)
    : memory_(memory),
      storage_(storage),
      incarnation_(incarnation),
      taken_(std::min<uint64_t>(memory.bytes / kStagingUnit, kUnitsMax)),
      free_(static_cast<uint32_t>(taken_.size())) {}

// Next fit: the search begins at the end of the last buffer. Most buffers have one unit, and the next unit is
// usually free.
StagingBuffer StagingPool::take(uint32_t bytes) noexcept {
    const uint32_t count = (bytes + kStagingUnit - 1) / kStagingUnit,
                   units = static_cast<uint32_t>(taken_.size());
    if (count == 0 || count > free_) return {};
    uint32_t run = 0;
    for (uint32_t looked = 0, at = next_; looked < units + count; ++looked, ++at) {
        if (at >= units) at = run = 0;
        run = taken_[at] ? 0 : run + 1;
        if (run < count) continue;
        const StagingBuffer staging{at + 1 - count, count, storage_, incarnation_};
        mark(staging, true);
        next_ = at + 1;
        return staging;
    }
    return {};
}

void StagingPool::mark(const StagingBuffer& staging, bool taken) noexcept {
    for (uint32_t i = staging.first; i < staging.first + staging.count; ++i) {
        WSS_ASSERT(taken_[i] != taken, "a staging buffer has one owner");
        taken_[i] = taken;
    }
    free_ = taken ? free_ - staging.count : free_ + staging.count;
}

void StagingPool::give_back(const StagingBuffer& staging) noexcept {
    auto found = std::find_if(quarantined_.begin(), quarantined_.end(), [&staging](const Quarantined& one) {
        return one.staging.first == staging.first;
    });
    if (found == quarantined_.end()) return mark(staging, false);
    found->returned = true;
}

void StagingPool::quarantine(const StagingBuffer& staging, uint64_t handle) {
    if (!open_.contains(handle)) return;
    auto found = std::find_if(quarantined_.begin(), quarantined_.end(), [&staging](const Quarantined& one) {
        return one.staging.first == staging.first;
    });
    if (found == quarantined_.end()) found = quarantined_.insert(found, {staging, {}, false});
    found->handles.push_back(handle);
}

void StagingPool::gone(uint64_t handle) {
    open_.erase(handle);
    std::erase_if(quarantined_, [&](Quarantined& one) {
        std::erase(one.handles, handle);
        if (!one.handles.empty()) return false;
        if (one.returned) mark(one.staging, false);
        return true;
    });
}

wire::RemoteBuffer StagingPool::remote(const StagingBuffer& staging, uint32_t offset,
                                       uint32_t length) const noexcept {
    return {memory_.address + staging.place() + offset, memory_.rkey, length};
}

}  // namespace wss::cache
