// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lib/initiator/payload.h"

namespace wss::initiator {

bool DataMemory::plan(Payload& payload, uint32_t immediate_room, Descriptors& descriptors) noexcept {
    descriptors.count = 0;
    if (payload.length == 0) return true;
    if (payload.direction == Direction::kOut && payload.length <= immediate_room) {
        payload.kind = Payload::Kind::kImmediate;
        return true;
    }
    if (!payload.transient && use_regions(payload, descriptors)) return true;
    std::optional<Bounce> bounce = bounce_->take(payload.length);
    if (!bounce) {
        release(payload);
        return false;
    }
    payload.kind = Payload::Kind::kBounce;
    payload.bounce = *bounce;
    if (payload.direction == Direction::kOut) {
        Cursor from = payload.where;
        from.gather(bounce_->data(*bounce), payload.length);
    }
    descriptors.list[0] = bounce_->remote(*bounce, payload.length, descriptors.device);
    descriptors.count = 1;
    return true;
}

// Returns false when the data has to be copied. Entries may be held even then.
bool DataMemory::use_regions(Payload& payload, Descriptors& descriptors) noexcept {
    payload.kind = Payload::Kind::kRegions;
    payload.count = 0;
    bool all = true;
    Cursor at = payload.where;
    at.walk(payload.length,
            [&](std::span<std::byte> run) { all = all && add_run(payload, descriptors, run); });
    if (!all) release(payload);
    return all && std::none_of(payload.entries.begin(), payload.entries.begin() + payload.count,
                               [](const RegionTable::Entry* entry) { return entry->copied; });
}

bool DataMemory::add_run(Payload& payload, Descriptors& descriptors, std::span<std::byte> run) noexcept {
    bool pin = pin_at_least_ != 0 && payload.length >= pin_at_least_;
    RegionTable::Entry* entry = pin ? regions_.find_or_pin(run) : regions_.find(run);
    if (entry == nullptr) return false;
    wire::RemoteBuffer next = entry->remote(run, descriptors.device);
    if (payload.count > 0 && payload.entries[payload.count - 1u] == entry) {
        wire::RemoteBuffer& previous = descriptors.list[descriptors.count - 1];
        if (previous.address + previous.length == next.address) {
            previous.length += next.length;
            return true;
        }
    }
    if (payload.count == kDescriptorsMax) return false;
    // Hold the entry before the next run is looked up: pinning that run may drop this entry from the table.
    regions_.hold(*entry);
    payload.entries[payload.count++] = entry;
    descriptors.list[descriptors.count++] = next;
    return true;
}

void DataMemory::deliver(Payload& payload, uint32_t bytes) noexcept {
    if (payload.kind != Payload::Kind::kBounce || payload.direction != Direction::kIn) return;
    Cursor to = payload.where;
    to.scatter(bounce_->data(payload.bounce), bytes);
}

void DataMemory::release(Payload& payload) noexcept {
    if (payload.kind == Payload::Kind::kBounce) bounce_->give_back(payload.bounce);
    for (uint32_t i = 0; i < payload.count; ++i) regions_.release(*payload.entries[i]);
    payload.kind = Payload::Kind::kNone;
    payload.count = 0;
}

}  // namespace wss::initiator
