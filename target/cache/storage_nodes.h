// SPDX-License-Identifier: Apache-2.0
// StorageNodes: the storage processes (RS), which serve real storage on other nodes. The queue of each volume
// that they serve is a RemoteQueue. An RS that lends staging buffers (staging.h) is also a client of the
// engines: fills and destaging move data directly between the RS and the engines.
//
// It owns the staging buffers and the count of losses. It calls the clients, the links to engines, and the
// RemoteQueue of each open volume. In the index it invalidates copies that may show data that storage has
// lost.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <memory>
#include <vector>

#include "lib/cache/index.h"
#include "target/cache/cached_volumes.h"
#include "target/cache/clients.h"
#include "target/cache/engine_set.h"
#include "target/cache/members.h"
#include "target/cache/nets.h"
#include "target/cache/staging.h"
#include "target/cache/storage_offers.h"
#include "target/cache/turn.h"

namespace wss::cache {

class StorageNodes {
  public:
    StorageNodes(Nets& nets, EngineSet& engines, Clients& clients, Index& index, CachedVolumes& volumes,
                 const Members& members, Turn& turn);
    ~StorageNodes();

    // ---- Nodes and volumes
    void ready(EngineLink& engine);
    void over(const EngineLink& engine);
    // The RS reported another state of one of its volumes.
    void volume_state_changed(const EngineLink& storage);
    // Engines and storage processes can join from now on.
    void engines_may_join(Nanoseconds now) noexcept;
    bool may_join() const noexcept { return may_join_; }
    // Called at each tick: tries to attach volumes that no RS serves, because their size may have changed.
    void tick(Nanoseconds now);
    // The RS has closed its connection to the engine that was announced to it with this handle.
    void engine_gone(const EngineLink& storage, uint64_t handle) noexcept;
    // Attaches the volume to the best offer of real storage, if no RS serves it.
    void attach(CachedVolume& volume);
    // Fails if no real storage would serve the volume after it was reopened. The data in engines must not be
    // dropped then.
    Status may_reopen(const CachedVolume& volume);
    EngineLink* link(EngineIndex index, uint32_t incarnation) noexcept {
        return engines_.storage(index, incarnation);
    }
    Result<std::unique_ptr<BufferRegions>> register_buffers(std::span<std::byte> memory) const {
        return nets_.register_buffers(memory);
    }

    // Number of times that real storage on other nodes may have lost writes that were not flushed.
    uint64_t losses() const noexcept { return losses_; }
    uint64_t note_loss() noexcept {
        note_change();
        return ++losses_;
    }
    // Counts a case in which such storage may have lost such writes or may have been written by others.
    // Initiators are not notified of writes by others.
    void note_change() noexcept { ++changes_; }
    uint64_t changes() const noexcept { return changes_; }

    // ---- Staging buffers
    bool has_staging() const noexcept { return !reached_.empty(); }
    bool reaches(const StagingBuffer& staging, EngineIndex engine) noexcept;
    // Takes a staging buffer to move data between the volume's real storage and this engine.
    StagingBuffer take(const CachedVolume& volume, EngineIndex engine, uint32_t bytes) noexcept;
    void give_back(StagingBuffer& staging) noexcept;
    // Makes the staging buffer, from `offset` bytes after its start, the peer of this move.
    void aim(Transfer& transfer, const StagingBuffer& staging, EngineIndex engine, uint32_t offset) noexcept;
    void quarantine(const StagingBuffer& staging, EngineIndex engine, uint64_t handle) noexcept;
    static void count_upkeep(CachedVolume& volume, const StagingBuffer& staging, uint64_t bytes) noexcept {
        (staging ? volume.counters.upkeep_direct_bytes : volume.counters.upkeep_through_target_bytes) +=
            bytes;
    }
    // The storage that lends this buffer, if it still serves the volume.
    EngineLink* storage_of(const StagingBuffer& staging, const CachedVolume& volume) noexcept;

  private:
    struct Reached;
    void note_departed(CachedVolume& volume);
    void note_lost(CachedVolume& volume, const StorageOffer& offer);
    void note_taken(CachedVolume& volume, const io::Succession& from, const StorageOffer& witness,
                    std::string why);
    bool note_last_lost(CachedVolume& volume, const StorageOffer& last, const StorageOffer& best);
    void look(CachedVolume& volume);
    static void note_suspension(CachedVolume& volume) noexcept;
    void note_report(CachedVolume& volume);
    void note_later(CachedVolume& volume);
    void leave(const CachedVolume& volume);
    void close_unanswered(Nanoseconds now);
    void await_successor(CachedVolume& volume);
    void await_owner(const CachedVolume& volume, const StorageOffer& offer);
    static void refuse(const CachedVolume& volume, RemoteState::Refusal refusal);
    void use(CachedVolume& volume, const StorageOffer& offer);
    void forget_clean(const CachedVolume& volume) noexcept;
    void open_staging(EngineLink& storage);
    Reached* reached_by(EngineIndex storage, uint32_t incarnation) noexcept;

    Nets& nets_;
    EngineSet& engines_;
    Clients& clients_;
    Index& index_;
    CachedVolumes& volumes_;
    Turn& turn_;
    StorageOffers offers_;
    std::vector<std::unique_ptr<Reached>> reached_;  // one for each RS that lends staging buffers
    // A volume that went to another process while its former process had not answered all requests for it.
    struct Left {
        EngineIndex storage;
        uint32_t incarnation = 0, number = 0;  // of the former process, and of the volume there
        Nanoseconds since{};
    };
    std::vector<Left> left_;
    uint64_t losses_ = 0, changes_ = 0;
    bool may_join_ = false;
};

}  // namespace wss::cache
