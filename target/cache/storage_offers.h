// SPDX-License-Identifier: Apache-2.0
// StorageOffers: what the connected storage processes (RS) offer for a volume, and which of them may serve
// it. Several may have a volume of this name, for example a process that was paused while another took its
// storage.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include "lib/cache/index.h"
#include "target/cache/cached_volume.h"
#include "target/cache/engine_set.h"
#include "target/cache/members.h"
#include "target/cache/remote.h"

namespace wss::cache {

struct StorageOffer {
    // In order of preference. kReadOnly: the storage is read-only, but the volume is not. kUnseen: the
    // process may have lost the storage without noticing. kAnothers: the storage has another owner, while
    // engines may hold writes of the volume. kOtherVolumes: engines may hold writes of another volume with
    // the same storage. kLost: the process reports that it has lost the storage. kFormer: another process had
    // the storage later.
    enum class Kind : uint8_t {
        kFits,
        kDoesNotFit,
        kReadOnly,
        kUnseen,
        kAnothers,
        kOtherVolumes,
        kLost,
        kFormer,
        kNone
    };
    Kind kind = Kind::kNone;
    EngineLink* engine = nullptr;
    const wire::CacheVolume* volume = nullptr;
    const wire::CacheVolumeState* reported = nullptr;  // nullptr: the RS reports no states
    uint64_t bytes() const noexcept { return reported != nullptr ? reported->bytes : volume->bytes; }
    io::Succession succession() const noexcept {
        if (reported == nullptr) return {};
        return {.series = reported->series, .term = reported->term, .since = reported->since};
    }
    bool follows(const StorageOffer& other) const noexcept {
        return succession().follows(other.succession());
    }
    uint64_t owner() const noexcept { return reported != nullptr ? reported->owner : 0; }
};

class StorageOffers {
  public:
    StorageOffers(EngineSet& engines, const Index& index, const Members& members)
        : engines_(engines), index_(index), members_(members) {}

    // Returns kNone, with `engine` nullptr, if this RS has no such volume.
    StorageOffer of(EngineLink& engine, const CachedVolume& volume) const noexcept;
    StorageOffer best(const CachedVolume& volume) const noexcept;
    // The offer of the process that served the volume last.
    StorageOffer last(const CachedVolume& volume) const noexcept;
    // Records the places of the processes that are connected.
    void note_seen(const CachedVolume& volume) const noexcept;
    // The offer of a process that had the storage later than the one at `place`, whether it still has it or
    // not. An offer that does not follow that place is preferred: it proves that the place has no successor.
    StorageOffer later_than(const io::Succession& place, const CachedVolume& volume) const noexcept;
    // The best offer among the processes that took the storage from the one that had it
    // (RemoteQueue::note_taken()). Of equally good offers, the latest is returned.
    StorageOffer successor(const CachedVolume& volume) const noexcept;

    // True if the owner differs from the one that had the storage when engines took data that the storage
    // lacks. All processes that may take each other's place count as one owner. Storage without an owner
    // differs from storage that has one.
    static bool is_of_another(const CachedVolume& volume, const StorageOffer& offer) noexcept;
    const DirtyVolume* other_volume_of(const CachedVolume& volume, const StorageOffer& offer) const noexcept;
    // True if engines hold, or have lost, data that the storage lacks.
    bool holds_writes(const CachedVolume& volume) const noexcept;
    // True if holds_writes(), or if engines that may hold such data have not yet joined.
    bool may_hold_writes(const CachedVolume& volume) const noexcept;

  private:
    bool is_former(const CachedVolume& volume, const StorageOffer& offer) const noexcept;

    EngineSet& engines_;
    const Index& index_;
    const Members& members_;
};

}  // namespace wss::cache
