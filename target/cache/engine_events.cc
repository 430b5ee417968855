// SPDX-License-Identifier: Apache-2.0
#include "target/cache/engine_events.h"

#include "lib/base/log.h"

namespace wss::cache {

void EngineEvents::engine_item(EngineLink& engine, const wire::CacheHeader& item) noexcept {
    if (engine.identity().returned) return uses_.destager.add_salvage(engine, item);
    if (engine.identity().kept) uses_.recovery.take_item(engine, item);
}

void EngineEvents::engine_ready(EngineLink& engine) noexcept {
    const auto& identity = engine.identity();
    if (identity.returned) {
        log::info("cache engine {:016x} ({}) returned with lost lines", identity.identity, engine.peer());
        return uses_.destager.engine_returned(engine);
    }
    if (engine.is_storage()) {
        uses_.nodes.ready(engine);
        return uses_.control.note_owners();
    }
    Status added = uses_.index.add_engine(
        engine.index(), {.identity = identity.identity, .weight = identity.memory, .slots = engine.slots()});
    if (!added) return engine.close(added);
    uses_.members.edit().engines[identity.identity] = identity.incarnation;
    // The engine has erased its former contents.
    uses_.losses.joined(identity.identity);
    uses_.members.edit().away.erase(identity.identity);
    log::info("cache engine {:016x} ({}) joined with {} lines", identity.identity, engine.peer(),
              engine.slots());
    if (uses_.recovery.waiting())
        uses_.recovery.check();
    else
        uses_.members.save();
    uses_.clients.introduce(engine);
    if (engine.leaving()) engine_wants_to_leave(engine);
}

void EngineEvents::lose(EngineLink& engine, const Status& why) {
    const auto& identity = engine.identity();
    const Loss loss = uses_.index.lose_engine(engine.index());
    if (!uses_.life.leaving())
        log::warning("cache engine {:016x} is gone ({}): {} lines lost their copy there", identity.identity,
                     why.to_string(), loss.lines);
    uses_.losses.note(engine, loss);
    // If the target leaves the engines, their contents count at the next start.
    if (loss.second_copies > 0 && !uses_.life.leaving()) {
        uses_.members.edit().degraded = true;
        uses_.single.note();
    }
    // While recovery waits, an awaited engine stays a member on stable storage: it may return with its
    // contents.
    if (!uses_.life.leaving()) {
        uses_.members.edit().engines.erase(identity.identity);
        if (!uses_.recovery.waiting()) uses_.members.save();
    }
}

void EngineEvents::engine_over(EngineLink& engine, const Status& why) noexcept {
    uses_.turn.want();
    if (!engine.index().exists()) return uses_.engines.retire(uses_.admission.take(engine));
    const EngineIndex index = engine.index();
    std::unique_ptr<EngineLink> old = uses_.engines.take(index);
    if (engine.is_storage()) uses_.nodes.over(engine);
    if (engine.is_storage() && !uses_.life.stopping())
        log::warning("real storage at {} is gone: {}", engine.peer(), why.to_string());
    if (uses_.index.has_engine(index)) lose(engine, why);
    uses_.recovery.engine_lost(index);
    uses_.destager.engine_lost(index);
    uses_.clients.withdraw(index);
    uses_.engines.retire(std::move(old));
}

void EngineEvents::engine_wants_to_leave(EngineLink& engine) noexcept {
    if (!uses_.index.has_engine(engine.index())) return;
    log::info("cache engine {:016x} requests to leave: destaging its dirty lines",
              engine.identity().identity);
    uses_.index.drain_engine(engine.index());
    for (CachedVolume& volume : uses_.volumes.open()) volume.planner->want(uses_.index.flush_mark());
    uses_.destager.tick();
}

Status EngineEvents::remove_engine(uint32_t index) {
    EngineLink* const engine =
        index < EngineSet::kMax ? uses_.engines.link({static_cast<uint8_t>(index)}) : nullptr;
    if (engine == nullptr) return failure(Code::kNotFound, "there is no cache engine {}", index);
    if (engine->is_storage())
        return failure(Code::kInvalid,
                       "{} is the real storage of volumes, not a cache engine: end its process when nothing "
                       "uses these volumes",
                       index);
    engine->mark_leaving();
    engine_wants_to_leave(*engine);
    return Status::ok();
}

void EngineEvents::grant_known(EngineLink&, const wire::CacheEngineNotice& notice) noexcept {
    uses_.clients.grant_known(notice);
}

void EngineEvents::client_attached(EngineLink& engine, uint64_t handle) noexcept {
    uses_.clients.attached(engine, handle);
}

void EngineEvents::client_detached(EngineLink& engine, uint64_t handle) noexcept {
    uses_.clients.detached(engine, handle);
}

void EngineEvents::engine_gone(EngineLink& storage, uint64_t handle) noexcept {
    uses_.nodes.engine_gone(storage, handle);
}

void EngineEvents::volume_state_changed(EngineLink& storage) noexcept {
    uses_.nodes.volume_state_changed(storage);
    uses_.control.note_owners();
}

void EngineEvents::tick() {
    for (EngineLink& engine : uses_.engines.all()) {
        // The engine's contents are not known before recovery has ended.
        if (!engine.leaving() || !engine.is_ready() || uses_.recovery.waiting()) continue;
        if (engine.identity().returned) continue;
        if (uses_.index.dirty_lines_on(engine.index()) > 0) {
            // New dirty lines got second copies in the engine before it was drained.
            for (CachedVolume& volume : uses_.volumes.open()) volume.planner->want(uses_.index.flush_mark());
            continue;
        }
        engine.say_goodbye();
        engine.turn();
    }
}

}  // namespace wss::cache
