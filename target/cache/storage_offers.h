// SPDX-License-Identifier: Apache-2.0
// StorageOffers: what the storage processes (RS) that are here offer for a volume, and which of them may
// serve it. Several may have a volume of this name, for example one that resumed after another took its
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
    // In order of preference. kReadOnly: and the volume is not. kUnseen: the process may have lost the
    // storage without noticing. kAnothers: the storage has another owner. kOtherVolumes: engines may hold
    // writes of another volume with the same storage. These two only while engines may hold writes. kLost:
    // the process reports that it has lost the storage. kFormer: another process had the storage later.
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
    // The process ran, and was not yet stopped, when `other` had the storage already. False also while that
    // is not known.
    bool ran_beside(const StorageOffer& other) const noexcept {
        const uint32_t joined = other.engine->identity().incarnation;
        return engine->identity().incarnation > joined || engine->answered_since(joined);
    }
    uint64_t owner() const noexcept { return reported != nullptr ? reported->owner : 0; }
};

class StorageOffers {
  public:
    StorageOffers(EngineSet& engines, const cache::Index& index, const Members& members)
        : engines_(engines), index_(index), members_(members) {}

    // Without an RS (kNone) if this one has no such volume.
    StorageOffer of(EngineLink& engine, const CachedVolume& volume) const noexcept;
    StorageOffer best(const CachedVolume& volume) const noexcept;
    // That of the process that served the volume last.
    StorageOffer last(const CachedVolume& volume) const noexcept;
    // That of a process that had the storage later than the one at `place`, whether it still has it or not.
    // One that does not follow that place precedes others: the place has no successor then.
    StorageOffer later_than(const io::Succession& place, const CachedVolume& volume) const noexcept;
    // That of a process that follows the one at `place`, and has lost the storage since to others than its
    // successors.
    StorageOffer lost_after(const io::Succession& place, const CachedVolume& volume) const noexcept;
    // The last one of those that took the storage from the process that had it
    // (RemoteQueue::note_taken()).
    StorageOffer successor(const CachedVolume& volume) const noexcept;

    // True if the owner differs from the one that had the storage when engines took data that the storage
    // lacks. All processes that may take each other's place are one owner. Storage without an owner is other
    // storage than any that has one.
    static bool is_of_another(const CachedVolume& volume, const StorageOffer& offer) noexcept;
    const DirtyVolume* other_volume_of(const CachedVolume& volume, const StorageOffer& offer) const noexcept;
    // True if engines hold, or have lost, data that the storage lacks.
    bool holds_writes(const CachedVolume& volume) const noexcept;
    // The same, or engines that may hold such data have not joined yet.
    bool may_hold_writes(const CachedVolume& volume) const noexcept;

  private:
    bool is_former(const CachedVolume& volume, const StorageOffer& offer) const noexcept;

    EngineSet& engines_;
    const cache::Index& index_;
    const Members& members_;
};

}  // namespace wss::se
