// SPDX-License-Identifier: Apache-2.0
#include "target/cache/storage_offers.h"

#include <algorithm>

namespace wss::cache {

bool StorageOffers::is_of_another(const CachedVolume& volume, const StorageOffer& offer) noexcept {
    return volume.remote->served_by() != 0 && volume.remote->owner() != offer.owner();
}

const DirtyVolume* StorageOffers::other_volume_of(const CachedVolume& volume,
                                                  const StorageOffer& offer) const noexcept {
    for (const auto& [wwid, known] : members_.now().dirty)
        if (wwid != volume.wwid && known.owner != 0 && known.owner == offer.owner()) return &known;
    return nullptr;
}

bool StorageOffers::holds_writes(const CachedVolume& volume) const noexcept {
    return index_.dirty_lines(volume.number) > 0 || members_.now().lost.any_of(volume.wwid);
}

bool StorageOffers::may_hold_writes(const CachedVolume& volume) const noexcept {
    return holds_writes(volume) || !members_.awaited().empty();
}

// kLost if the process has lost the storage; otherwise kNone.
static StorageOffer reported_by(EngineLink& engine, const CachedVolume& volume) noexcept {
    if (!engine.is_ready() || !engine.is_storage()) return {};
    const auto& all = engine.volumes();
    auto found = std::find_if(all.begin(), all.end(), [&](const wire::CacheVolume& one) {
        return one.name == volume.remote->name();
    });
    if (found == all.end()) return {};
    StorageOffer offer{StorageOffer::Kind::kNone, &engine, &*found, engine.state_of(found->number)};
    if (offer.reported != nullptr && offer.reported->error != 0) offer.kind = StorageOffer::Kind::kLost;
    return offer;
}

// True if a process that is or was connected had the storage later.
bool StorageOffers::is_former(const CachedVolume& volume, const StorageOffer& offer) const noexcept {
    return volume.remote->served().is_former(offer.succession()) ||
           later_than(offer.succession(), volume).engine != nullptr;
}

StorageOffer StorageOffers::of(EngineLink& engine, const CachedVolume& volume) const noexcept {
    using Kind = StorageOffer::Kind;
    StorageOffer offer = reported_by(engine, volume);
    if (offer.engine == nullptr || offer.kind == Kind::kLost) return offer;
    const volume::Volume& here = volume.open->volume();
    const bool fits = offer.bytes() >= here.size() && here.block_size() % offer.volume->logical_block == 0;
    const bool suspended = offer.reported != nullptr && offer.reported->suspended;
    const bool holds = may_hold_writes(volume);
    // These are checked before the size, so that no volume is resized to the size of the wrong storage.
    if (is_former(volume, offer))
        offer.kind = Kind::kFormer;
    else if (other_volume_of(volume, offer) != nullptr)
        offer.kind = Kind::kOtherVolumes;
    else if (holds && is_of_another(volume, offer))
        offer.kind = Kind::kAnothers;
    else if (offer.volume->read_only && !here.opened_read_only())
        offer.kind = Kind::kReadOnly;
    else if (!fits)
        offer.kind = Kind::kDoesNotFit;
    else if (suspended)
        offer.kind = Kind::kUnseen;
    else
        offer.kind = Kind::kFits;
    return offer;
}

StorageOffer StorageOffers::best(const CachedVolume& volume) const noexcept {
    const auto continues = [&](const StorageOffer& one) {
        return one.succession().follows(volume.remote->succession());
    };
    StorageOffer best;
    for (EngineLink& engine : engines_.all()) {
        const StorageOffer offer = of(engine, volume);
        const bool goes_before = offer.follows(best) || (continues(offer) && !continues(best));
        if (offer.kind < best.kind || (offer.kind == best.kind && goes_before)) best = offer;
    }
    return best;
}

StorageOffer StorageOffers::last(const CachedVolume& volume) const noexcept {
    for (EngineLink& engine : engines_.all()) {
        if (engine.identity().identity == volume.remote->served_by()) return of(engine, volume);
    }
    return {};
}

void StorageOffers::note_seen(const CachedVolume& volume) const noexcept {
    if (volume.remote == nullptr) return;
    for (EngineLink& engine : engines_.all())
        volume.remote->note_seen(reported_by(engine, volume).succession());
}

StorageOffer StorageOffers::later_than(const io::Succession& place,
                                       const CachedVolume& volume) const noexcept {
    StorageOffer later;
    for (EngineLink& engine : engines_.all()) {
        const StorageOffer offer = reported_by(engine, volume);
        if (!offer.succession().is_after(place)) continue;
        if (later.engine == nullptr || !offer.succession().follows(place)) later = offer;
    }
    return later;
}

StorageOffer StorageOffers::successor(const CachedVolume& volume) const noexcept {
    StorageOffer best;
    for (EngineLink& engine : engines_.all()) {
        const StorageOffer offer = of(engine, volume);
        const bool succeeds = offer.succession().follows(volume.remote->taken_from());
        if (offer.kind >= StorageOffer::Kind::kLost || !succeeds || is_of_another(volume, offer)) continue;
        if (offer.kind < best.kind || (offer.kind == best.kind && offer.follows(best))) best = offer;
    }
    return best;
}

}  // namespace wss::cache
