// SPDX-License-Identifier: Apache-2.0
// EngineEvents: receives the reports of engines. It passes each report to the owners concerned, in the order
// of rule SE4: an engine that is lost is removed from the index before its outstanding transfers end.
//
// It owns nothing. Of the objects that it calls, only the admission refers to it, and passes it to new links
// as their EngineLinkOwner.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include "target/cache/admission.h"
#include "target/cache/clients.h"
#include "target/cache/destager.h"
#include "target/cache/storage_nodes.h"
#include "target/cache/volume_control.h"

namespace wss::cache {

class EngineEvents final : public EngineLinkOwner {
  public:
    // What it calls.
    struct Uses {
        Index& index;
        EngineSet& engines;
        Admission& admission;
        Clients& clients;
        StorageNodes& nodes;
        VolumeControl& control;
        Members& members;
        CachedVolumes& volumes;
        Losses& losses;
        SingleCopies& single;
        RecoveryRun& recovery;
        Destager& destager;
        const Life& life;
        Turn& turn;
    };
    explicit EngineEvents(const Uses& uses) : uses_(uses) {}

    std::string engine_limit(const EngineLink& engine) override { return uses_.admission.limit(engine); }
    void engine_proven(EngineLink& engine) noexcept override { uses_.admission.proven(engine); }
    void engine_ready(EngineLink& engine) noexcept override;
    void engine_item(EngineLink& engine, const wire::CacheHeader& item) noexcept override;
    void client_attached(EngineLink& engine, uint64_t handle) noexcept override;
    void client_detached(EngineLink& engine, uint64_t handle) noexcept override;
    void grant_known(EngineLink& engine, const wire::CacheEngineNotice& notice) noexcept override;
    void engine_wants_to_leave(EngineLink& engine) noexcept override;
    void engine_gone(EngineLink& storage, uint64_t handle) noexcept override;
    void volume_state_changed(EngineLink& storage) noexcept override;
    void engine_over(EngineLink& engine, const Status& why) noexcept override;

    // An operator's command: acts as if the engine had requested to leave.
    Status remove_engine(uint32_t index);
    // Called at each tick: releases engines that have requested to leave and no longer hold dirty lines.
    void tick();

  private:
    void lose(EngineLink& engine, const Status& why);

    const Uses uses_;
};

}  // namespace wss::cache
