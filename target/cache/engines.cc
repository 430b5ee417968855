// SPDX-License-Identifier: Apache-2.0
// Engines that have joined, leave and are lost; who is a member on stable storage; what is recovered after a
// restart; clients and the tokens by which engines know them.
#include <algorithm>

#include "lib/base/log.h"
#include "lib/cache/header.h"
#include "target/cache/cache.h"

namespace wss::se {

using cache::EngineIndex;

std::unique_ptr<EngineLink> Cache::take_link(cache::EngineIndex index) noexcept {
    std::unique_ptr<EngineLink> taken = std::move(links_[index.value]);
    while (links_end_ > 0 && links_[links_end_ - 1] == nullptr) --links_end_;
    return taken;
}

void Cache::engine_item(EngineLink& engine, const wire::CacheHeader& item) noexcept {
    if (engine.identity().returned) return add_salvage(engine, item);
    if (engine.identity().kept)
        items_.push_back({{engine.index(), item.slot}, engine.identity().incarnation, item.header});
}

void Cache::engine_ready(EngineLink& engine) noexcept {
    const auto& identity = engine.identity();
    if (identity.returned) {
        log::info("cache engine {:016x} ({}) is back with what was lost", identity.identity, engine.peer());
        salvage_due_ = wants_turn_ = true;
        return;
    }
    if (engine.is_storage()) return storage_ready(engine);
    Status added = index_->add_engine(
        engine.index(), {.identity = identity.identity, .weight = identity.memory, .slots = engine.slots()});
    if (!added) return engine.close(added);
    membership_.engines[identity.identity] = identity.incarnation;
    // If it held something, it has erased that.
    departed_.erase(identity.identity);
    membership_.away.erase(identity.identity);
    log::info("cache engine {:016x} ({}) joined with {} lines", identity.identity, engine.peer(),
              engine.slots());
    if (recovering_)
        check_recovery();
    else
        save_membership();
    for (auto& client : clients_) introduce(*client, engine);
    if (engine.leaving()) engine_wants_to_leave(engine);
}

void Cache::engine_over(EngineLink& engine, const Status& why) noexcept {
    wants_turn_ = true;
    if (!engine.is_admitted()) return old_links_.push_back(out_of_lobby(engine));
    const EngineIndex index = engine.index();
    const auto& identity = engine.identity();
    std::unique_ptr<EngineLink> old = take_link(index);
    if (engine.is_storage()) {
        close_bays(engine);
        storage_gone();
    }
    if (engine.is_storage() && !stopping_)
        log::warning("real storage at {} is gone: {}", engine.peer(), why.to_string());
    if (index_->has_engine(index)) {
        const cache::Loss loss = index_->lose_engine(index);
        if (!stopping_)
            log::warning("cache engine {:016x} is gone ({}): {} lines lost their copy there",
                         identity.identity, why.to_string(), loss.lines);
        note_loss(engine, loss);
        // We are the ones who leave: what it holds counts at the next start.
        if (loss.second_copies > 0 && !home_) {
            membership_.degraded = true;
            destage_single_copies();
        }
        // While recovery waits, what is awaited stays a member on stable storage: it may come back with what
        // it holds.
        if (!stopping_) {
            membership_.engines.erase(identity.identity);
            if (!recovering_) save_membership();
        }
    }
    std::erase_if(items_, [index](const Item& item) { return item.slot.engine == index; });
    salvages_.erase(index.value);
    for (auto& client : clients_) {
        Client::Place& place = client->engines[index.value];
        if (place.handle == 0) continue;
        handles_.erase(place.handle);
        place = {};
        wire::CacheEngineNotice notice{.added = false, .index = index.value};
        client->sink->tell(notice);
    }
    old_links_.push_back(std::move(old));
}

// ---- Membership ------------------------------------------------------------------------------------------

void Cache::save_membership() {
    membership_changed_ = true;
    if (saving_) return;
    saving_ = true;
    membership_changed_ = false;
    came_home_.clear();
    Membership stable = membership_;
    stable.engines.insert(awaited_.begin(), awaited_.end());
    saving_engines_ = stable.engines;
    saving_engines_.insert(stable.away.begin(), stable.away.end());
    store_->save(stable.to_text(), [this](const Status& status) { membership_saved(status); });
}

void Cache::membership_saved(const Status& status) {
    saving_ = false;
    wants_turn_ = true;
    if (!status) {
        static log::Limiter limiter(1);
        if (limiter.allow())
            log::error("the cache's membership cannot be saved, writes wait for it: {}", status.to_string());
        membership_changed_ = true;
        // Again at the next tick.
        return;
    }
    saved_engines_ = std::move(saving_engines_);
    if (membership_changed_) return save_membership();
    check_recovery();
    List<Work> ready;
    ready.splice_back(unacknowledged_);
    while (Work* work = ready.pop_front()) end(*work, {});
    run_postponed(after_saving_, nullptr);
}

// SE2: a write that is the first to make a line dirty is acknowledged when this is stable.
void Cache::note_dirty(CachedVolume& volume, bool may_be_dirty) {
    volume.may_be_dirty = may_be_dirty;
    const volume::Volume& open = volume.open->volume();
    if (!may_be_dirty) {
        if (membership_.dirty.erase(open.wwid()) > 0) save_membership();
        return;
    }
    const DirtyVolume now{.name = open.name(), .bytes = open.size()};
    auto [known, added] = membership_.dirty.try_emplace(open.wwid(), now);
    if (!added && known->second == now) return;
    known->second = now;
    save_membership();
}

// The first dirty line waits until no header of before can be taken for one of this volume: recovery wipes
// those of volumes that are not recorded as dirty.
bool Cache::may_write_back(const CachedVolume& volume) const {
    return volume.settings.policy == cache::Policy::kBack && !holding_ && !being_wiped(volume.wwid);
}

void Cache::begin_write_back() {
    for (auto& volume : volumes_)
        if (volume != nullptr && !volume->removed() && !volume->may_be_dirty && may_write_back(*volume))
            note_dirty(*volume, true);
}

// A volume that was under write-back before the restart, and is not now, has nothing dirty any more when what
// was recovered is home. Of an engine that was lost meanwhile it must be stable that it is no member.
void Cache::note_clean_volumes() {
    if (holding_ || membership_pending()) return;
    for (auto& volume : volumes_) {
        if (volume == nullptr || volume->removed() || !volume->may_be_dirty) continue;
        const bool lost = membership_.lost.any_of(volume->open->volume().wwid());
        if (volume->settings.policy != cache::Policy::kBack && !lost &&
            index_->dirty_lines(volume->number) == 0)
            note_dirty(*volume, false);
    }
}

void Cache::when_saved(CachedVolume& volume, std::function<void()> task) {
    if (!came_home_.empty()) save_membership();
    if (!waits_for_saving(volume)) return task();
    postpone(after_saving_, volume, std::move(task));
}

// It is stable that nothing counts of what the task destroys: a restart in between would find half of it.
void Cache::when_recorded(std::function<void()> task) {
    if (!membership_pending()) return task();
    after_saving_.push_back({nullptr, {}, std::move(task)});
}

// ---- Recovery --------------------------------------------------------------------------------------------

// Each dirty line is in an engine that is back.
bool Cache::finds_all(size_t back) const {
    const size_t members = awaited_.size();
    bool unsafe = needs_all_ || members < 2;
    for (const auto& [wwid, settings] : membership_.policies) unsafe = unsafe || settings.unsafe;
    return back == members || (!unsafe && back + 1 == members);
}

bool Cache::may_finish_recovery(size_t back) const {
    if (back == awaited_.size() || forgotten_) return true;
    const bool waited = reactor_.clock().now() - recovery_began_ > options_.recovery_grace;
    return waited && finds_all(back);
}

// Once, to who is paged because commands hang.
void Cache::tell_of_wait(const std::map<uint64_t, uint32_t>& back) {
    if (wait_is_told_ || reactor_.clock().now() - recovery_began_ <= options_.recovery_grace) return;
    wait_is_told_ = true;
    std::string names;
    for (const auto& [identity, incarnation] : awaited_)
        if (!back.contains(identity)) names += fmt::format("{}{:016x}", names.empty() ? "" : ", ", identity);
    log::warning(
        "recovery waits for cache engines that may hold acknowledged writes which no other has: {}; commands "
        "of volumes that may be dirty wait until they are back, or are not waited for (wssctl cache forget)",
        names);
}

// The operator does not wait for engines that may have dirty lines which no other has. Which lines that are
// nobody knows.
void Cache::note_forgotten() {
    for (const auto& [wwid, dirty] : membership_.dirty) {
        log::error(
            "volume {}: cache engines that may hold acknowledged writes are not waited for: reading it fails "
            "until they are given up (wssctl cache give-up {})",
            dirty.name, dirty.name);
        membership_.lost.add_whole(wwid);
    }
    for (auto& volume : volumes_)
        if (volume != nullptr && !volume->removed() && volume->may_be_dirty) volume->loss_told = false;
}

// Of each line one copy will be left. Before the others are erased it is on stable storage that the next
// start cannot do without any engine, and which engines it has to do without.
void Cache::check_recovery() {
    if (!recovering_) return;
    std::map<uint64_t, uint32_t> back;
    for (const auto& engine : links_)
        if (engine != nullptr && engine->is_ready() && engine->identity().kept)
            back[engine->identity().identity] = engine->identity().incarnation;
    if (!may_finish_recovery(back.size())) return tell_of_wait(back);
    const bool without = back.size() < awaited_.size();
    if (without) {
        log::warning("recovery goes on without {} of {} cache engines", awaited_.size() - back.size(),
                     awaited_.size());
        if (!finds_all(back.size())) note_forgotten();
        // One that is just coming back comes too late.
        for (const auto& engine : links_)
            if (engine != nullptr && engine->identity().kept && !back.contains(engine->identity().identity))
                engine->close(Status(Code::kUnavailable, "recovery went on without it"));
        awaited_ = std::move(back);
        needs_all_ = true;
        forgotten_ = false;
    }
    if (without || !membership_.degraded) {
        membership_.degraded = true;
        save_membership();
    }
    if (!membership_pending()) finish_recovery();
}

void Cache::finish_recovery() {
    cache::Recovery recovery(geometry_);
    for (const auto& volume : volumes_)
        if (volume != nullptr && !volume->removed())
            recovery.add_volume(volume->open->volume().wwid(), volume->number, volume->open->volume().size(),
                                volume->may_be_dirty);
    keep_absent(recovery);
    for (const Item& item : items_) recovery.add_header(item.slot, item.incarnation, item.header);
    index_->hold_placement(false);
    const cache::RecoveryReport report = recovery.restore(*index_);
    index_->hold_placement(true);
    log::info("recovered {} dirty lines from {} headers of {} cache engines", report.dirty_lines,
              report.headers, awaited_.size());
    erase_losers(recovery.erase(), Transfer::Kind::kHeader);
    erase_losers(recovery.wipe(), Transfer::Kind::kWipe);
    degraded_mark_ = index_->flush_mark();
    // Dirty in a member: written after the loss, the word of that had not come to stable storage.
    for (const auto& volume : volumes_)
        if (volume != nullptr && !volume->removed() && !membership_.lost.empty())
            index_->for_each_dirty(volume->number, [&](cache::Line& line) {
                known_again(volume->open->volume().wwid(), line.key().line, line.dirty());
                return true;
            });
    settle_absent();
    recovering_ = false;
    awaited_.clear();
    items_.clear();
    save_membership();
    wants_turn_ = true;
}

void Cache::erase_losers(std::span<const cache::Slot> slots, Transfer::Kind how) {
    for (const cache::Slot& slot : slots) {
        auto erase = std::make_unique<SlotErase>();
        erase->cache = this;
        erase->transfer.kind = how;
        erase->transfer.move.slot = slot.number;
        erase->transfer.context = erase.get();
        erase->transfer.done = [](Transfer& transfer, wire::CacheStatus) noexcept {
            // An engine that did not do it is lost, and no member any more.
            auto& over = *static_cast<SlotErase*>(transfer.context);
            over.over = over.cache->wants_turn_ = true;
        };
        link(slot.engine)->submit(erase->transfer);
        slot_erases_.push_back(std::move(erase));
    }
}

// Copies that lost claim dirty data no more, and that is confirmed, before anything is written that they
// miss.
void Cache::resume_after_recovery() {
    std::erase_if(slot_erases_, [](const auto& erase) { return erase->over; });
    if (!slot_erases_.empty()) return;
    holding_ = false;
    index_->hold_placement(false);
    for (auto& volume : volumes_) {
        if (volume == nullptr || volume->removed()) continue;
        volume->planner->want(degraded_mark_);
        begin_held(*volume);
    }
    run_postponed(after_recovery_, nullptr);
    destage_tick();
}

void Cache::forget_awaited() {
    if (!recovering_) return;
    log::warning("recovery ends without the cache engines that are not here, by the operator's word");
    forgotten_ = true;
    check_recovery();
}

// ---- Leaving ---------------------------------------------------------------------------------------------

void Cache::engine_wants_to_leave(EngineLink& engine) noexcept {
    if (!index_->has_engine(engine.index())) return;
    log::info("cache engine {:016x} wants to leave: bringing its dirty lines home",
              engine.identity().identity);
    index_->drain_engine(engine.index());
    for (auto& volume : volumes_)
        if (volume != nullptr && !volume->removed()) volume->planner->want(index_->flush_mark());
    destage_tick();
}

void Cache::check_leaving() {
    if ((membership_changed_ || !came_home_.empty()) && !saving_) save_membership();
    note_clean_volumes();
    begin_write_back();
    if (membership_.degraded && !holding_) {
        bool home = absent_is_home(degraded_mark_);
        for (auto& volume : volumes_)
            home = home && (volume == nullptr || volume->removed() ||
                            index_->flushed(volume->number, degraded_mark_));
        if (home) {
            membership_.degraded = false;
            departed_.clear();
            save_membership();
        }
    }
    for (size_t i = 0; i < links_end_; ++i) {
        const auto& engine = links_[i];
        // What it holds is not known before recovery is over.
        if (engine == nullptr || !engine->leaving() || !engine->is_ready() || recovering_) continue;
        if (engine->identity().returned) continue;
        if (index_->dirty_lines_on(engine->index()) > 0) {
            // New ones went there as second copies before it was drained.
            for (auto& volume : volumes_)
                if (volume != nullptr && !volume->removed()) volume->planner->want(index_->flush_mark());
            continue;
        }
        engine->say_goodbye();
        engine->turn();
    }
}

Status Cache::remove_engine(uint32_t index) {
    if (index >= links_.size() || links_[index] == nullptr)
        return failure(Code::kNotFound, "there is no cache engine {}", index);
    links_[index]->mark_leaving();
    engine_wants_to_leave(*links_[index]);
    return Status::ok();
}

// ---- Clients ---------------------------------------------------------------------------------------------

Client* Cache::add_client(fabric::Scheme scheme, ClientSink& sink) {
    auto client = std::make_unique<Client>();
    client->sink = &sink;
    client->scheme = scheme;
    return admit_client(std::move(client));
}

Client* Cache::admit_client(std::unique_ptr<Client> client) {
    Client* made = client.get();
    clients_.push_back(std::move(client));
    for (auto& engine : links_)
        if (engine != nullptr && engine->is_ready() &&
            (engine->is_storage() || index_->has_engine(engine->index())))
            introduce(*made, *engine);
    return made;
}

void Cache::remove_client(Client* client) {
    for (size_t i = 0; i < client->engines.size(); ++i) {
        const uint64_t handle = client->engines[i].handle;
        if (handle == 0) continue;
        handles_.erase(handle);
        if (links_[i] != nullptr) links_[i]->revoke(handle);
    }
    // Commands of a lost channel that wait (for a line, a frozen volume, recovery) go on without it.
    for (auto& work : works_)
        if (work->client == client) work->client = nullptr;
    std::erase_if(clients_, [client](const auto& item) { return item.get() == client; });
}

void Cache::introduce(Client& client, EngineLink& engine) noexcept {
    if (client.is_storage && engine.is_storage()) return;
    const auto& addresses = engine.addresses();
    auto address = std::find_if(addresses.begin(), addresses.end(),
                                [&](const fabric::Address& one) { return one.scheme == client.scheme; });
    wire::CacheEngineNotice notice{.added = true, .index = engine.index().value};
    if (address == addresses.end() || !notice.set_uri(address->to_string())) return;
    auto secret = [this] { return options_.secrets ? options_.secrets() : random_.next(); };
    do notice.handle = secret();
    while (notice.handle == wire::kStorageHandle || handles_.contains(notice.handle));
    for (size_t at = 0; at < notice.token.size(); at += 8) wire::put64(notice.token.data() + at, secret());
    Client::Place& place = client.engines[engine.index().value];
    place.handle = notice.handle;
    place.attached = false;
    place.ticks = 0;
    handles_[notice.handle] = {&client, engine.index().value};
    engine.grant(notice);
    wants_turn_ = true;
}

void Cache::grant_known(EngineLink&, const wire::CacheEngineNotice& notice) noexcept {
    auto found = handles_.find(notice.handle);
    if (found != handles_.end()) found->second.first->sink->tell(notice);
}

// A client whose connection to an engine failed says nothing of it, and may come some day: its network is
// cut, its engine was too busy. A notice of the same engine ends what it has of it.
void Cache::invite_anew() noexcept {
    for (auto& client : clients_)
        for (size_t i = 0; i < links_end_; ++i) {
            Client::Place& place = client->engines[i];
            if (place.handle == 0 || place.attached || links_[i] == nullptr || !links_[i]->is_ready())
                continue;
            if (++place.ticks < place.patience) continue;
            place.patience = std::min<uint16_t>(place.patience * 2, Client::kInviteTicksMax);
            handles_.erase(place.handle);
            links_[i]->revoke(place.handle);
            introduce(*client, *links_[i]);
        }
}

void Cache::client_attached(EngineLink& engine, uint64_t handle) noexcept {
    auto found = handles_.find(handle);
    if (found == handles_.end() || found->second.second != engine.index().value) return;
    Client::Place& place = found->second.first->engines[engine.index().value];
    place.attached = true;
    place.patience = Client::kInviteTicks;
}

void Cache::client_detached(EngineLink& engine, uint64_t handle) noexcept {
    auto found = handles_.find(handle);
    if (found == handles_.end() || found->second.second != engine.index().value) return;
    Client& client = *found->second.first;
    handles_.erase(found);
    client.engines[engine.index().value] = {};
    if (engine.is_ready()) introduce(client, engine);
}

}  // namespace wss::se
