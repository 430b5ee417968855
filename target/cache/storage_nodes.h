// SPDX-License-Identifier: Apache-2.0
// StorageNodes: real storage (RS) on other nodes. Each serves the volumes whose queue is a RemoteQueue, and
// is a client of the engines where it lends bays (bays.h): what fills lines and what is brought home goes
// straight between the two.
//
// It owns the bays and the count of losses. It calls the clients and the engines' links, the index (copies
// that may show what storage has lost), and the RemoteQueue of each open volume.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <memory>
#include <vector>

#include "lib/cache/index.h"
#include "target/cache/bays.h"
#include "target/cache/cached_volumes.h"
#include "target/cache/clients.h"
#include "target/cache/engine_set.h"
#include "target/cache/members.h"
#include "target/cache/nets.h"
#include "target/cache/turn.h"

namespace wss::se {

class StorageNodes {
  public:
    StorageNodes(Nets& nets, EngineSet& engines, Clients& clients, cache::Index& index,
                 CachedVolumes& volumes, const Members& members, Turn& turn);
    ~StorageNodes();

    // ---- Nodes and volumes
    void ready(EngineLink& engine);
    void over(const EngineLink& engine);
    // What the RS reports of one of its volumes has changed.
    void volume_state_changed(const EngineLink& storage);
    // Engines and storage processes can join from now on.
    void engines_may_join(Nanoseconds now) noexcept;
    bool may_join() const noexcept { return may_join_; }
    // At each tick: a volume that its real storage could not serve may have another size now.
    void tick();
    // The RS says that it is connected no more to the engine that it was told of with this handle.
    void engine_gone(const EngineLink& storage, uint64_t handle) noexcept;
    // To the best of what real storage offers, if none serves the volume.
    void attach(CachedVolume& volume);
    // An error while real storage would not serve the volume after a reopening: what engines hold of it must
    // not be dropped for nothing.
    Status may_reopen(const CachedVolume& volume);
    EngineLink* link(cache::EngineIndex index, uint32_t incarnation) noexcept {
        return engines_.storage(index, incarnation);
    }
    Result<std::unique_ptr<BufferRegions>> register_buffers(std::span<std::byte> memory) const {
        return nets_.register_buffers(memory);
    }

    // How often real storage elsewhere may have lost what was written and not flushed.
    uint64_t losses() const noexcept { return losses_; }
    uint64_t note_loss() noexcept {
        note_change();
        return ++losses_;
    }
    // … or may have been written by others, which initiators need not know.
    void note_change() noexcept { ++changes_; }
    uint64_t changes() const noexcept { return changes_; }

    // ---- Bays
    bool has_bays() const noexcept { return !reached_.empty(); }
    bool reaches(const Bay& bay, cache::EngineIndex engine) noexcept;
    // To move data of the volume between its real storage and this engine.
    Bay take(const CachedVolume& volume, cache::EngineIndex engine, uint32_t bytes) noexcept;
    void give_back(Bay& bay) noexcept;
    // The peer of this move is the bay, `offset` bytes behind its beginning.
    void aim(Transfer& transfer, const Bay& bay, cache::EngineIndex engine, uint32_t offset) noexcept;
    void distrust(const Bay& bay, cache::EngineIndex engine, uint64_t handle) noexcept;
    static void count_upkeep(CachedVolume& volume, const Bay& bay, uint64_t bytes) noexcept {
        (bay ? volume.counters.upkeep_direct_bytes : volume.counters.upkeep_through_us_bytes) += bytes;
    }
    // The storage whose bay this is, if it is still the one that the volume is served by.
    EngineLink* storage_of(const Bay& bay, const CachedVolume& volume) noexcept;

  private:
    struct Reached;
    struct Offer;  // of a volume, by an RS
    static bool is_of_another(const CachedVolume& volume, const Offer& offer) noexcept;
    const DirtyVolume* other_volume_of(const CachedVolume& volume, const Offer& offer) const noexcept;
    bool holds_writes(const CachedVolume& volume) const noexcept;
    bool may_hold_writes(const CachedVolume& volume) const noexcept;
    Offer offer_of(EngineLink& engine, const CachedVolume& volume) const noexcept;
    Offer best_offer(const CachedVolume& volume) noexcept;
    Offer last_offer(const CachedVolume& volume) noexcept;
    void note_lost(CachedVolume& volume, const Offer& offer);
    void note_taken(CachedVolume& volume, const wire::CacheVolumeState& reported);
    void await_successor(CachedVolume& volume);
    bool succeeds(const CachedVolume& volume, const Offer& offer) const noexcept;
    void await_owner(const CachedVolume& volume, const Offer& offer);
    static void refuse(const CachedVolume& volume, RemoteState::Refusal refusal);
    void use(CachedVolume& volume, const Offer& offer);
    void forget_clean(const CachedVolume& volume) noexcept;
    void open_bays(EngineLink& storage);
    Reached* reached_by(cache::EngineIndex storage, uint32_t incarnation) noexcept;

    Nets& nets_;
    EngineSet& engines_;
    Clients& clients_;
    cache::Index& index_;
    CachedVolumes& volumes_;
    const Members& members_;
    Turn& turn_;
    std::vector<std::unique_ptr<Reached>> reached_;  // real storage with bays: one, or none
    uint64_t losses_ = 0, changes_ = 0;
    bool may_join_ = false;
};

}  // namespace wss::se
