// SPDX-License-Identifier: Apache-2.0
#include "target/cache/cache.h"

namespace wss::cache {

static Nanoseconds age_of_dirty(const CachedVolume& volume, Index& index, Nanoseconds now,
                                Nanoseconds recovery_began) {
    const Nanoseconds since = index.dirty(volume.number).since();
    return since == kNever ? Nanoseconds{} : now - std::max(since, recovery_began);
}

static uint64_t waiting_for(const CachedVolume& volume) {
    uint64_t count = 0;
    for (LostWaiters* waiters : volume.waiters) count += waiters->count();
    return count;
}

CacheInfo Cache::info() {
    Index& index = lines_.index();
    CacheInfo info{.line_bytes = index.geometry().line_bytes(),
                   .recovering = recovery_.holding(),
                   .trouble = members_.pending() && !members_.trouble() ? members_.trouble().to_string() : "",
                   .awaited = recovery_.missing(),
                   .away = static_cast<uint32_t>(members_.now().away.size()),
                   .lost_grace = options_.lost_grace,
                   .salvage_checks = destager_.salvage_checks(),
                   .waiting_checks = losses_.checks(),
                   .index = index.counters(),
                   .capacity_lines = index.capacity_lines()};
    for (EngineLink& engine : engines_.all()) {
        EngineInfo& one = info.engines.emplace_back();
        one.index = engine.index().value;
        one.identity = engine.identity().identity;
        one.peer = engine.peer();
        for (const auto& address : engine.addresses()) one.addresses.push_back(address.to_string());
        one.slots = engine.slots();
        const bool joined = index.has_engine(engine.index());
        one.used_slots = joined ? index.used_slots(engine.index()) : 0;
        one.dirty_lines = index.dirty_lines_on(engine.index());
        one.bytes_to_clients = engine.bytes_to_clients();
        one.state = !engine.is_ready()           ? "joining"
                    : engine.is_storage()        ? "storage"
                    : engine.identity().returned ? "returned"
                    : engine.leaving()           ? "leaving"
                                                 : "live";
        for (const auto& client : clients_.all()) {
            const bool attached = client->engines[engine.index().value].attached;
            one.clients += attached && !client->is_storage;
            one.reached = one.reached || (attached && client->is_storage);
        }
    }
    for (CachedVolume& volume : volumes_.open()) {
        const volume::Volume& open = volume.open->volume();
        info.volumes.push_back(
            {.name = open.name(),
             .settings = volume.settings,
             .dirty_lines = index.dirty_lines(volume.number),
             .single_lines = mirror_.single_lines(volume.number),
             .lost_bytes = losses_.lost_bytes(open),
             .waiting = waiting_for(volume),
             .lost_for = losses_.lost_for(volume),
             .oldest_dirty = age_of_dirty(volume, index, reactor_.clock().now(), recovery_.began()),
             .frozen = volume.gate.frozen(),
             .last_error = volume.last_error,
             .counters = volume.counters});
    }
    absent_.list(info);
    for (AbsentVolumeInfo& volume : info.absent) {
        const auto lines = volumes_.absent().find(volume.wwid);
        if (lines != volumes_.absent().end()) volume.single_lines = mirror_.single_lines(lines->second);
    }
    return info;
}

}  // namespace wss::cache
