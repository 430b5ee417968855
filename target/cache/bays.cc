// SPDX-License-Identifier: Apache-2.0
#include "target/cache/bays.h"

#include <algorithm>

namespace wss::se {

Bays::Bays(const wire::CacheBays& memory, cache::EngineIndex storage, uint32_t incarnation)
    : memory_(memory),
      storage_(storage),
      incarnation_(incarnation),
      taken_(std::min<uint64_t>(memory.bytes / kBayUnit, kUnitsMax)),
      free_(static_cast<uint32_t>(taken_.size())) {}

// First fit, from the end of the last buffer: most buffers have one unit, and the next unit is usually
// free.
Bay Bays::take(uint32_t bytes) noexcept {
    const uint32_t count = (bytes + kBayUnit - 1) / kBayUnit, units = static_cast<uint32_t>(taken_.size());
    if (count == 0 || count > free_) return {};
    uint32_t run = 0;
    for (uint32_t looked = 0, at = next_; looked < units + count; ++looked, ++at) {
        if (at >= units) at = run = 0;
        run = taken_[at] ? 0 : run + 1;
        if (run < count) continue;
        const Bay bay{at + 1 - count, count, storage_, incarnation_};
        mark(bay, true);
        next_ = at + 1;
        return bay;
    }
    return {};
}

void Bays::mark(const Bay& bay, bool taken) noexcept {
    for (uint32_t i = bay.first; i < bay.first + bay.count; ++i) {
        WSS_ASSERT(taken_[i] != taken, "a bay has one owner");
        taken_[i] = taken;
    }
    free_ = taken ? free_ - bay.count : free_ + bay.count;
}

void Bays::give_back(const Bay& bay) noexcept {
    auto found = std::find_if(distrusted_.begin(), distrusted_.end(),
                              [&bay](const Distrusted& one) { return one.bay.first == bay.first; });
    if (found == distrusted_.end()) return mark(bay, false);
    found->returned = true;
}

void Bays::distrust(const Bay& bay, uint64_t handle) {
    if (!open_.contains(handle)) return;
    auto found = std::find_if(distrusted_.begin(), distrusted_.end(),
                              [&bay](const Distrusted& one) { return one.bay.first == bay.first; });
    if (found == distrusted_.end()) found = distrusted_.insert(found, {bay, {}, false});
    found->handles.push_back(handle);
}

void Bays::gone(uint64_t handle) {
    open_.erase(handle);
    std::erase_if(distrusted_, [&](Distrusted& one) {
        std::erase(one.handles, handle);
        if (!one.handles.empty()) return false;
        if (one.returned) mark(one.bay, false);
        return true;
    });
}

wire::RemoteBuffer Bays::remote(const Bay& bay, uint32_t offset, uint32_t length) const noexcept {
    return {memory_.address + bay.place() + offset, memory_.rkey, length};
}

}  // namespace wss::se
