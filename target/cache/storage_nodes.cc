// SPDX-License-Identifier: Apache-2.0
#include "target/cache/storage_nodes.h"

#include <algorithm>

#include "lib/base/log.h"
#include "target/cache/remote.h"

namespace wss::cache {

using Offer = StorageOffer;

// How long a process may take to answer the outstanding requests for a volume that another process took.
constexpr Nanoseconds kAnswerMax = from_s(2);

// Real storage with staging buffers. It exists from ready() to over().
struct StorageNodes::Reached final : ClientSink {
    Reached(EngineSet& all, const EngineLink& link)
        : engines(all),
          storage(link.index()),
          incarnation(link.identity().incarnation),
          pool(link.staging(), storage, incarnation) {}

    void notify(const wire::CacheEngineNotice& notice) noexcept override {
        EngineLink* link = engines.link(storage);
        if (link == nullptr) return;
        if (notice.added) pool.named(notice.handle);
        link->name_engine(notice);
    }

    EngineSet& engines;
    const EngineIndex storage;
    const uint32_t incarnation;
    StagingPool pool;
    Client* client = nullptr;
};

StorageNodes::StorageNodes(Nets& nets, EngineSet& engines, Clients& clients, Index& index,
                           CachedVolumes& volumes, const Members& members, Turn& turn)
    : nets_(nets),
      engines_(engines),
      clients_(clients),
      index_(index),
      volumes_(volumes),
      turn_(turn),
      offers_(engines, index, members) {}

StorageNodes::~StorageNodes() = default;

// ---- Nodes and volumes -----------------------------------------------------------------------------------

void StorageNodes::ready(EngineLink& engine) {
    log::info("real storage at {} joined with {} volumes", engine.peer(), engine.volumes().size());
    for (CachedVolume& volume : volumes_.open()) look(volume);
    clients_.introduce(engine);
    open_staging(engine);
    turn_.want();
}

void StorageNodes::over(const EngineLink& engine) {
    std::erase_if(reached_, [&](const auto& one) {
        if (one->storage != engine.index()) return false;
        clients_.remove(one->client);
        return true;
    });
    for (CachedVolume& volume : volumes_.open())
        if (volume.remote != nullptr && volume.remote->storage() == nullptr && !volume.remote->is_taken() &&
            volume.remote->was_served_by(engine))
            volume.remote->state().refuse({.why = "waits for its real storage, which is away"});
    for (CachedVolume& volume : volumes_.open()) {
        note_departed(volume);
        note_suspension(volume);
    }
}

// When the connection of a refused process ends, only the reason changes: a suspended volume stays suspended.
void StorageNodes::note_departed(CachedVolume& volume) {
    if (volume.remote == nullptr || volume.remote->storage() != nullptr || volume.remote->is_taken()) return;
    if (offers_.best(volume).kind == Offer::Kind::kNone) volume.remote->state().note_departed();
}

void StorageNodes::look(CachedVolume& volume) {
    offers_.note_seen(volume);
    note_later(volume);
    attach(volume);
    note_suspension(volume);
}

// Done at once, and not at the next tick, because a write that arrives now must not be acknowledged by
// engines alone.
void StorageNodes::note_suspension(CachedVolume& volume) noexcept {
    if (volume.remote != nullptr) volume.suspended = volume.remote->state().is_suspended();
}

static std::string unseen(const Offer& offer) {
    const std::string& why = offer.reported->text;
    return fmt::format(
        "waits for its real storage: the process at {} {}", offer.engine->peer(),
        why.empty() ? "has not verified yet that it still has the storage" : "reports: " + why);
}

static std::string reason(const wire::CacheVolumeState& state) {
    return state.text.empty() ? "its real storage is lost to another owner" : state.text;
}

// The process that serves the volume keeps it, unless another one had the storage later. Its loss is handled
// before the offers of other processes, which may have taken the storage from a third one.
void StorageNodes::attach(CachedVolume& volume) {
    if (volume.remote == nullptr || volume.remote->state().is_lost()) return;
    if (volume.remote->storage() != nullptr) return;
    volume.remote->note_away();
    if (volume.remote->is_taken()) return await_successor(volume);
    Offer best = offers_.best(volume);
    const Offer last = offers_.last(volume);
    if (note_last_lost(volume, last, best)) return;
    const bool follows = best.succession().follows(volume.remote->succession());
    const bool is_here = last.kind <= Offer::Kind::kReadOnly || last.kind == best.kind;
    if (is_here && !follows) best = last;
    const bool is_silent = last.kind == Offer::Kind::kNone || last.kind == Offer::Kind::kUnseen;
    const bool awaits_last = volume.remote->awaits_last(best.kind == Offer::Kind::kFits);
    if (is_silent && !follows && awaits_last && offers_.may_hold_writes(volume)) {
        volume.remote->refuse(false);
        if (last.kind == Offer::Kind::kUnseen) use(volume, last);
        if (best.kind == Offer::Kind::kLost) use(volume, best);
        return;
    }
    const bool misfits = best.kind == Offer::Kind::kDoesNotFit || best.kind == Offer::Kind::kReadOnly;
    const bool fails = (best.kind == Offer::Kind::kAnothers && offers_.holds_writes(volume)) ||
                       (misfits && volume.remote->accepts_refusal_of(*best.engine));
    volume.remote->refuse(fails);
    if (best.kind != Offer::Kind::kNone) use(volume, best);
}

// Why an offer of kDoesNotFit or kReadOnly cannot serve the volume.
static std::string misfit(const volume::Volume& here, const Offer& offer) {
    if (offer.kind == Offer::Kind::kReadOnly)
        return fmt::format(
            "not served: its real storage at {} is read-only; start that process without "
            "ro, or create the volume read-only",
            offer.engine->peer());
    std::string why = fmt::format(
        "not served: its real storage at {} has {} bytes in blocks of {}, but the volume needs {} bytes in "
        "blocks of {}",
        offer.engine->peer(), offer.bytes(), offer.volume->logical_block, here.size(), here.block_size());
    if (offer.bytes() < here.size() && here.block_size() % offer.volume->logical_block == 0)
        why += fmt::format("; wssctl volume resize {} {} serves what is left, if it is the right storage",
                           here.name(), offer.bytes() / here.block_size() * here.block_size());
    return why;
}

Status StorageNodes::may_reopen(const CachedVolume& volume) {
    const std::string& name = volume.open->volume().name();
    const Offer best = offers_.best(volume);
    if (best.kind == Offer::Kind::kNone)
        return failure(
            Code::kRefused,
            "volume {}: no process with its real storage (--role rs) has joined; start it, then reopen",
            name);
    if (best.kind == Offer::Kind::kUnseen)
        return failure(Code::kRefused,
                       "volume {}: the process at {} has not verified yet that it still has the real "
                       "storage; try again later, or start another one",
                       name, best.engine->peer());
    if (best.kind == Offer::Kind::kReadOnly)
        return failure(Code::kRefused, "volume {}: {}", name, misfit(volume.open->volume(), best));
    if (best.kind == Offer::Kind::kFormer)
        return failure(Code::kRefused,
                       "volume {}: another process took its real storage from the one at {}; start a process "
                       "that has the storage, or restart the one that lost it, then reopen",
                       name, best.engine->peer());
    if (best.kind == Offer::Kind::kLost && volume.remote->is_taken())
        return failure(
            Code::kRefused,
            "volume {}: the process at {} has lost its real storage ({}), and no other has joined; wait for "
            "the process that took the storage, or start another one, then reopen",
            name, best.engine->peer(), reason(*best.reported));
    if (best.kind == Offer::Kind::kLost)
        return failure(Code::kRefused,
                       "volume {}: the process at {} has lost its real storage, too ({}); restart the "
                       "process (with steal=true, to shut out the present owner), then reopen",
                       name, best.engine->peer(), reason(*best.reported));
    return Status::ok();
}

// The process at `from`, which served the volume last, has lost the storage. Others may have written to the
// storage, even if the next process has the same owner, because the next process may have taken it from them.
// This is excluded only if the next process follows the last one in its chain. `witness`: the offer that
// shows the owner.
void StorageNodes::note_taken(CachedVolume& volume, const io::Succession& from, const Offer& witness,
                              std::string why) {
    if (volume.remote->storage() != nullptr) leave(volume);
    const uint64_t owner = volume.remote->owner();
    if (!from.is_known() || owner == 0 || witness.owner() != owner)
        return volume.remote->state().lose(std::move(why));
    volume.remote->note_taken(from, std::move(why));
    await_successor(volume);
}

static std::string taken_by(const Offer& later) {
    return fmt::format("the process at {} took it", later.engine->peer());
}

// A process that was paused, or is cut off from its storage, does not report that another one took the
// storage. But the place of a later process proves the loss, whether the last process still runs or not. The
// later process follows the last one if it took the storage from the last one, or found it unchanged after
// the last one had released it. Otherwise a third party may have used the storage in between. Returns true if
// nothing more is to be done for the volume now.
bool StorageNodes::note_last_lost(CachedVolume& volume, const Offer& last, const Offer& best) {
    const io::Succession reported = last.succession();
    if (last.kind == Offer::Kind::kLost) {
        note_taken(volume, reported, last, reason(*last.reported));
        return true;
    }
    const io::Succession served = reported.is_known() ? reported : volume.remote->succession();
    const Offer later = offers_.later_than(served, volume);
    // While the owner is not known, engines hold no writes that the storage lacks.
    if (later.engine == nullptr || volume.remote->owner() == 0) return false;
    const bool goes_on = best.kind < Offer::Kind::kLost && best.succession().follows(served) &&
                         !StorageOffers::is_of_another(volume, best);
    const bool follows = later.succession().follows(served);
    // A process of another owner may have been started by mistake. The operator can undo that
    // (await_owner()).
    const bool awaits_owner =
        follows && StorageOffers::is_of_another(volume, later) && offers_.may_hold_writes(volume);
    if (goes_on || awaits_owner) return false;
    volume.remote->note_taken(served, taken_by(later));
    await_successor(volume);
    return true;
}

// Like note_last_lost(), but while the last process still serves the volume.
void StorageNodes::note_later(CachedVolume& volume) {
    if (volume.remote == nullptr || volume.remote->storage() == nullptr) return;
    const io::Succession served = volume.remote->succession();
    const Offer later = offers_.later_than(served, volume);
    if (later.engine == nullptr) return;
    const Offer server = offers_.of(*volume.remote->storage(), volume);
    note_taken(volume, served, server, taken_by(later));
}

// The process may be cut off from its storage, and would answer outstanding requests late. These are
// repeated, or fail, when it has answered. Its link is closed only if it does not answer in time, because
// other volumes need the link.
void StorageNodes::leave(const CachedVolume& volume) {
    const EngineLink& link = *volume.remote->storage();
    left_.push_back({link.index(), link.identity().incarnation, volume.remote->number(), kNever});
}

void StorageNodes::close_unanswered(Nanoseconds now) {
    std::erase_if(left_, [&](Left& left) {
        EngineLink* link = engines_.storage(left.storage, left.incarnation);
        if (link == nullptr || !link->has_requests_of(left.number)) return true;
        if (left.since == kNever) left.since = now;
        if (now - left.since < kAnswerMax) return false;
        link->close(Status(Code::kClosed,
                           "another process took the storage of a volume from this one, which does not "
                           "answer requests for the volume"));
        return true;
    });
}

void StorageNodes::await_successor(CachedVolume& volume) {
    const Offer best = offers_.successor(volume);
    if (best.kind != Offer::Kind::kNone) {
        volume.remote->note_successor();
        if (best.kind == Offer::Kind::kFits)
            log::warning("volume {}: the process at {} took its real storage from the one that served it",
                         volume.open->volume().name(), best.engine->peer());
        return use(volume, best);
    }
    const io::Succession from = volume.remote->taken_from();
    const Offer later = offers_.later_than(from, volume);
    const bool has_none = later.engine != nullptr && !later.succession().follows(from);
    if (has_none)
        return volume.remote->state().lose(volume.remote->taken_why() +
                                           "; others may have written it in between");
    if (!volume.remote->awaits_successor()) return volume.remote->state().lose(volume.remote->taken_why());
    refuse(volume, {.why = fmt::format("waits for the process that took its real storage; the process that "
                                       "served it has lost the storage ({})",
                                       volume.remote->taken_why()),
                    .suspends = true,
                    .may_give_up = true});
}

// Another process may have the volume now. So the report of a process that has lost the volume does not
// suspend the volume, unless some process had the volume later than the one that served it.
void StorageNodes::note_lost(CachedVolume& volume, const Offer& offer) {
    refuse(volume, {.why = fmt::format("waits for its real storage: the process at {} has lost it ({})",
                                       offer.engine->peer(), reason(*offer.reported)),
                    .suspends = offers_.later_than(volume.remote->succession(), volume).engine != nullptr,
                    .may_give_up = true});
}

// Data in engines must not be destaged over the writes of another owner. The process of the known owner may
// still join, if this one was started by mistake.
void StorageNodes::await_owner(const CachedVolume& volume, const Offer& offer) {
    if (!offers_.holds_writes(volume))
        return refuse(volume, {.why = fmt::format("waits for cache engines: they may hold writes for an "
                                                  "owner of its real storage other than the one at {}",
                                                  offer.engine->peer()),
                               .suspends = true});
    const std::string& name = volume.open->volume().name();
    refuse(volume, {.why = fmt::format(
                        "another owner had its real storage at {} while engines held writes that are not in "
                        "the storage: start the process that had the storage last (with the same --join as "
                        "then), or drop the writes (wssctl volume reopen {} --give-up-dirty)",
                        offer.engine->peer(), name),
                    .suspends = true,
                    .may_give_up = true});
}

void StorageNodes::refuse(const CachedVolume& volume, RemoteState::Refusal refusal) {
    const std::string why = refusal.why;
    if (volume.remote->state().refuse(std::move(refusal)))
        log::error("volume {}: {}", volume.open->volume().name(), why);
}

void StorageNodes::use(CachedVolume& volume, const Offer& offer) {
    RemoteState& state = volume.remote->state();
    if (offer.kind == Offer::Kind::kLost) return note_lost(volume, offer);
    if (offer.kind == Offer::Kind::kAnothers) return await_owner(volume, offer);
    if (offer.kind == Offer::Kind::kOtherVolumes)
        return refuse(volume,
                      {.why = fmt::format("cache engines may hold writes of volume {}, which has the same "
                                          "real storage: serve the storage under that name until these "
                                          "writes are destaged, or give them up (wssctl cache give-up {})",
                                          offers_.other_volume_of(volume, offer)->name,
                                          offers_.other_volume_of(volume, offer)->name),
                       .suspends = true});
    if (offer.kind == Offer::Kind::kUnseen) return refuse(volume, {.why = unseen(offer), .suspends = true});
    if (offer.kind == Offer::Kind::kFormer)
        return refuse(
            volume, {.why = fmt::format("waits for its real storage: another process took it from the one at "
                                        "{}; start the process that took it, or restart the one that lost it",
                                        offer.engine->peer())});
    const uint64_t before = changes_;
    if (offer.kind == Offer::Kind::kFits) {
        volume.remote->note_owner(offer.owner());
        std::erase_if(left_, [&](const Left& left) {
            return left.storage == offer.engine->index() && left.number == offer.volume->number;
        });
        volume.remote->attach(*offer.engine, *offer.volume, offer.succession());
        const bool reports = offer.reported != nullptr;
        state.report(offer.bytes(), reports && offer.reported->suspended,
                     reports ? offer.reported->text : std::string());
    } else {
        volume.remote->note_process(*offer.engine);
        // Writes must not be acknowledged, because it may be the wrong storage.
        const bool small = offer.kind == Offer::Kind::kDoesNotFit;
        refuse(volume, {.why = misfit(volume.open->volume(), offer),
                        .offered = small ? offer.bytes() : UINT64_MAX,
                        .suspends = true});
    }
    if (changes_ != before) forget_clean(volume);
}

// Waits that began when a volume was opened begin again now, because no process could join before. Opening
// the other volumes may have taken minutes.
void StorageNodes::engines_may_join(Nanoseconds now) noexcept {
    if (std::exchange(may_join_, true)) return;
    for (CachedVolume& volume : volumes_.open()) volume.opened = now;
}

void StorageNodes::tick(Nanoseconds now) {
    close_unanswered(now);
    for (CachedVolume& volume : volumes_.open()) look(volume);
}

void StorageNodes::note_report(CachedVolume& volume) {
    const wire::CacheVolumeState* reported = volume.remote->storage()->state_of(volume.remote->number());
    if (reported == nullptr) return;
    if (reported->error == 0)
        return volume.remote->state().report(reported->bytes, reported->suspended, reported->text);
    const Offer lost = offers_.of(*volume.remote->storage(), volume);
    note_taken(volume, lost.succession(), lost, reason(*reported));
}

void StorageNodes::volume_state_changed(const EngineLink& storage) {
    for (CachedVolume& volume : volumes_.open()) {
        if (volume.remote == nullptr || volume.remote->storage() != &storage) continue;
        note_report(volume);
        note_suspension(volume);
    }
    turn_.want();
}

// The storage may have lost unflushed writes, or others may have written to it. Copies still show the former
// data, and readers would see an older state when the copies are evicted. Data in transit from or to storage
// is not valid in copies either (CacheCommand::changes).
void StorageNodes::forget_clean(const CachedVolume& volume) noexcept {
    index_.for_each([&](Line& line) {
        const bool settled = line.state() == LineState::kClean || line.state() == LineState::kDirty ||
                             line.state() == LineState::kDestaging;
        if (line.key().volume == volume.number && settled)
            index_.invalidate(line, line.valid().without(line.dirty()));
    });
}

void StorageNodes::open_staging(EngineLink& storage) {
    if (storage.staging().bytes < kStagingUnit) return;
    reached_.push_back(std::make_unique<Reached>(engines_, storage));
    auto client = std::make_unique<Client>();
    client->sink = reached_.back().get();
    client->scheme = nets_[storage.identity().via.net].scheme;
    client->is_storage = true;
    reached_.back()->client = clients_.add(std::move(client));
}

StorageNodes::Reached* StorageNodes::reached_by(EngineIndex storage, uint32_t incarnation) noexcept {
    for (auto& one : reached_)
        if (one->storage == storage && one->incarnation == incarnation) return one.get();
    return nullptr;
}

void StorageNodes::engine_gone(const EngineLink& storage, uint64_t handle) noexcept {
    if (Reached* reached = reached_by(storage.index(), storage.identity().incarnation))
        reached->pool.gone(handle);
}

// ---- Staging buffers -------------------------------------------------------------------------------------

bool StorageNodes::reaches(const StagingBuffer& staging, EngineIndex engine) noexcept {
    const Reached* reached = reached_by(staging.storage, staging.incarnation);
    EngineLink* holder = engines_.link(engine);
    return reached != nullptr && holder != nullptr && holder->is_ready() &&
           reached->client->engines[engine.value].attached;
}

StagingBuffer StorageNodes::take(const CachedVolume& volume, EngineIndex engine, uint32_t bytes) noexcept {
    if (reached_.empty() || volume.remote == nullptr) return {};
    const EngineLink* storage = volume.remote->storage();
    if (storage == nullptr) return {};
    const StagingBuffer whose{.storage = storage->index(), .incarnation = storage->identity().incarnation};
    if (!reaches(whose, engine)) return {};
    return reached_by(whose.storage, whose.incarnation)->pool.take(bytes);
}

void StorageNodes::give_back(StagingBuffer& staging) noexcept {
    if (Reached* reached = reached_by(staging.storage, staging.incarnation)) reached->pool.give_back(staging);
    staging = {};
}

void StorageNodes::aim(Transfer& transfer, const StagingBuffer& staging, EngineIndex engine,
                       uint32_t offset) noexcept {
    const Reached& reached = *reached_by(staging.storage, staging.incarnation);
    transfer.move.handle = reached.client->engines[engine.value].handle;
    transfer.move.remote = reached.pool.remote(staging, offset, transfer.move.length);
}

// Revokes the connection between the RS and the engine (SB1). They then reconnect, because the connection may
// be faulty.
void StorageNodes::quarantine(const StagingBuffer& staging, EngineIndex engine, uint64_t handle) noexcept {
    Reached* reached = reached_by(staging.storage, staging.incarnation);
    if (reached == nullptr) return;
    reached->pool.quarantine(staging, handle);
    Client::Place& place = reached->client->engines[engine.value];
    if (place.handle != handle) return;
    place.attached = false;
    if (EngineLink* holder = engines_.link(engine)) holder->revoke(handle);
}

EngineLink* StorageNodes::storage_of(const StagingBuffer& staging, const CachedVolume& volume) noexcept {
    EngineLink* storage = volume.remote->storage();
    const bool same = reached_by(staging.storage, staging.incarnation) != nullptr && storage != nullptr &&
                      storage->index() == staging.storage;
    return same ? storage : nullptr;
}

}  // namespace wss::cache
