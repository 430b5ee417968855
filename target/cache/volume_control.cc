// SPDX-License-Identifier: Apache-2.0
#include "target/cache/volume_control.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/log.h"
#include "target/cache/remote.h"

namespace wss::cache {

// ---- Life ------------------------------------------------------------------------------------------------

CachedVolume* VolumeControl::add(volume::OpenVolume& open) {
    if (!open.volume().memory().empty()) return nullptr;  // RAM needs no cache
    const uint64_t wwid = open.volume().wwid();
    CachedVolume& volume = uses_.volumes.add(wwid);
    volume.open = &open;
    volume.opened = reactor_.now();
    volume.remote = dynamic_cast<RemoteQueue*>(&open.queue());
    auto dirty = uses_.members.now().dirty.find(wwid);
    if (volume.remote != nullptr && dirty != uses_.members.now().dirty.end())
        volume.remote->remember(dirty->second.owner, dirty->second.process, dirty->second.taken);
    auto served = uses_.members.now().served.find(wwid);
    if (volume.remote != nullptr && served != uses_.members.now().served.end())
        volume.remote->remember(served->second);
    uses_.nodes.attach(volume);
    volume.suspended = open.volume().backend().suspended();
    volume.planner = std::make_unique<DestagePlanner>(options_.destage);
    volume.ahead = std::make_unique<ReadAhead>(options_.read_ahead);
    auto remembered = uses_.members.now().policies.find(wwid);
    volume.settings =
        remembered != uses_.members.now().policies.end() ? remembered->second : options_.default_policy;
    uses_.lines.index().add_volume(volume.number);
    // It is unknown whether a flush failed for this loss before the restart.
    volume.loss_told = !uses_.members.now().lost.any_of(wwid);
    volume.fail_next_flush = uses_.members.now().given_up.contains(wwid);
    // Lines that recovery has found have one copy.
    uses_.single.want(volume);
    note_dirty(volume, uses_.members.now().dirty.contains(wwid) || may_write_back(volume));
    if (open.volume().drops_from() != 0) shrink(volume, nullptr);
    return &volume;
}

void VolumeControl::grew(CachedVolume& volume) {
    auto known = uses_.members.now().dirty.find(volume.open->volume().wwid());
    const bool grew =
        known == uses_.members.now().dirty.end() || known->second.bytes <= volume.open->volume().size();
    // A shrink is recorded later, when nothing is left beyond the new end.
    if (grew) note_dirty(volume, volume.may_be_dirty);
}

void VolumeControl::remove(CachedVolume& volume) {
    volume.removal = volume.gate.enter();
    volume.gate.close([this, &volume] {
        // At shutdown, lines that are not destaged stay in the engines, and the volume stays in the cache.
        if (!uses_.life.stopping()) uses_.volumes.gone(volume);
    });
    refuse_waiting(volume);
    if (uses_.life.stopping()) return volume.removal.release();
    note_dirty(volume, false);
    // If the volume is being reopened, its policy and the record of its given-up data pass to the reopened
    // volume.
    if (!volume.open->reopening()) {
        const bool had_policy = uses_.members.edit().policies.erase(volume.wwid) > 0;
        if (uses_.members.edit().served.erase(volume.wwid) > 0 || had_policy) uses_.members.save();
        uses_.losses.forget(volume.open->volume().wwid());
        uses_.losses.told(volume);
    }
    uses_.engines.flush_completions();
    // The caller drops the volume when `open` has no users. So this holds `open` until the removal is on
    // stable storage: a restart before that would not drop the volume.
    volume.open->hold();
    volume.gate.when_quiet([this, &volume] {
        uses_.members.when_recorded([this, &volume, open = volume.open] {
            uses_.eraser.wipe(volume.number, std::move(volume.removal), [] {});
            open->release();
        });
    });
}

// Waiting commands do not begin. Commands that wait for an event that may never come (recovery, stable
// storage) stop waiting. Active commands end with their engines and their storage.
void VolumeControl::refuse_waiting(CachedVolume& volume) noexcept {
    uses_.datapath.refuse_waiting(volume);
    for (auto& flush : std::exchange(volume.flushes, {})) flush.done(ENXIO);
    for (LostWaiters* waiters : std::exchange(volume.waiters, {})) {
        size_t all = SIZE_MAX;
        waiters->look_due();
        waiters->look(all);
    }
    uses_.recovery.wait_no_more(volume);
    uses_.members.wait_no_more(volume);
    uses_.datapath.refuse_unacknowledged(volume);
}

// ---- A smaller volume ------------------------------------------------------------------------------------
//
// Lines beyond the new end must not return when the volume grows again, neither from an engine nor by a
// restart, and must not be destaged over newer data.
//
// An orderly stop leaves lines in the engines. A shrink that is not complete by then fails, and the next
// start completes it.

// Waits for recovery, because the lines that recovery finds are unknown before it is over.
void VolumeControl::shrink(CachedVolume& volume, std::shared_ptr<volume::Shrink> shrink) {
    uses_.losses.look_due(volume);
    auto cut = [this, &volume, shrink = std::move(shrink)] { cut_lines(volume, shrink); };
    uses_.recovery.waits(volume) ? uses_.recovery.when_over(volume, std::move(cut)) : cut();
}

void VolumeControl::cut_lines(CachedVolume& volume, const std::shared_ptr<volume::Shrink>& shrink) {
    auto place = std::make_shared<Gate::Holder>(volume.gate.enter());
    if (!*place || uses_.recovery.holds(volume) || uses_.life.leaving()) return;
    const uint64_t bytes = volume.open->volume().size();
    const auto cut = [this, bytes, wwid = volume.wwid](Line& line, Lines::Ended ended) {
        const uint64_t start = uses_.lines.geometry().start_of(line.key().line);
        const uint32_t keep = start < bytes ? static_cast<uint32_t>(bytes - start) : 0;
        uses_.eraser.cut(line, keep, wwid, std::move(ended));
    };
    uses_.lines.walk(volume.number, bytes, UINT64_MAX, cut, [this, &volume, shrink, place] {
        lines_cut(volume, shrink);
        place->release();
    });
}

// Stable storage must record that engines lost in the meantime are not members.
void VolumeControl::lines_cut(CachedVolume& volume, const std::shared_ptr<volume::Shrink>& shrink) {
    // When the links are closed, the wipes end as well, although the engines keep the lines.
    if (volume.removed() || uses_.life.leaving()) return;
    const volume::Volume& open = volume.open->volume();
    const Span last = uses_.lines.geometry().first_span(open.size() - 1, 1);
    uses_.losses.cut(open.wwid(), last.line, last.offset + 1);
    note_dirty(volume, volume.may_be_dirty);
    volume.smaller = {};  // the volume has followed its storage
    uses_.members.when_saved(volume, [&volume, shrink] {
        if (shrink != nullptr && !volume.removed()) shrink->done();
    });
}

// ---- Policies --------------------------------------------------------------------------------------------

Status VolumeControl::check_stable(const PolicySettings& settings) const {
    if (settings.policy != Policy::kBack || uses_.members.is_stable() || settings.unsafe) return Status::ok();
    return failure(Code::kRefused,
                   "write-back needs a state file (--state), so that dirty lines are found after a restart; "
                   "or use 'unsafe'");
}

void VolumeControl::set_policy(const std::string& name, const PolicySettings& settings,
                               std::function<void(Status)> done) {
    CachedVolume* volume = uses_.volumes.find(name);
    if (volume == nullptr)
        return done(failure(Code::kNotFound, "there is no volume {} that can have a cache", name));
    if (Status allowed = check_policy(settings, uses_.lines.index().placeable_engines()); !allowed)
        return done(allowed);
    if (Status allowed = check_stable(settings); !allowed) return done(allowed);
    if (uses_.recovery.holding()) return done(recovering());
    auto change = [this, volume, settings, name, done] {
        if (volume->removed()) {
            thaw(*volume);
            return done(failure(Code::kNotFound, "the volume is gone"));
        }
        volume->settings = settings;
        uses_.members.edit().policies[volume->wwid] = settings;
        note_dirty(*volume, may_write_back(*volume));
        thaw(*volume);
        uses_.members.record([name, settings, done](const Status& status) {
            done(
                status.within(fmt::format("the policy of volume {} is {} now, but is not yet recorded for "
                                          "the next start: writes wait until it is; the target keeps trying",
                                          name, to_string(settings.policy))));
        });
    };
    auto frozen_now = [this, volume, settings, done, change = std::move(change)](int error) {
        if (error != 0 || volume->removed()) {
            const bool removed = volume->removed();
            thaw(*volume);
            return done(removed ? failure(Code::kNotFound, "the volume is gone")
                                : Status::from_errno(
                                      error, "dirty lines cannot be destaged; the policy is unchanged"));
        }
        if (!forgets_lines(volume->settings.policy, settings.policy)) return change();
        uses_.lines.drop(volume->number, 0, UINT64_MAX, change);
        uses_.engines.flush_completions();
    };
    uses_.members.probe(*volume, [this, name, volume, done = std::move(done),
                                  frozen_now = std::move(frozen_now)](const Status& status) mutable {
        if (!status) return done(status.within(fmt::format("the policy of volume {} is unchanged", name)));
        if (!freeze(*volume, {}, Frozen::kChanged, std::move(frozen_now), Asker::kOperator, nullptr))
            done(failure(Code::kNotFound, "the volume is gone"));
    });
}

// ---- Volumes that may be dirty ---------------------------------------------------------------------------

// The first write that makes a line dirty is acknowledged when this is stable (SE2).
void VolumeControl::note_dirty(CachedVolume& volume, bool may_be_dirty) {
    volume.may_be_dirty = may_be_dirty;
    const volume::Volume& open = volume.open->volume();
    if (!may_be_dirty) {
        uses_.members.edit().storage_lost.erase(open.wwid());
        if (uses_.members.edit().dirty.erase(open.wwid()) > 0) uses_.members.save();
        return;
    }
    const DirtyVolume now{.name = open.name(),
                          .bytes = open.size(),
                          .ownership = open.backend().ownership(),
                          .owner = volume.remote != nullptr ? volume.remote->owner() : 0,
                          .process = volume.remote != nullptr ? volume.remote->served_by() : 0,
                          .taken = volume.remote != nullptr ? volume.remote->taken_from() : io::Succession{},
                          .storage = open.storage_name()};
    auto [known, added] = uses_.members.edit().dirty.try_emplace(open.wwid(), now);
    if (!added && known->second == now) return;
    known->second = now;
    uses_.members.save();
}

// Records the owners before any line becomes dirty, so that no line is destaged over a later owner's writes.
void VolumeControl::note_owners() {
    for (CachedVolume& volume : uses_.volumes.open()) {
        if (volume.remote == nullptr) continue;
        note_server(volume);
        if (volume.may_be_dirty) note_dirty(volume, true);
    }
}

void VolumeControl::note_server(const CachedVolume& volume) {
    const ServedBy& now = volume.remote->served();
    const auto known = uses_.members.now().served.find(volume.wwid);
    if (known == uses_.members.now().served.end() ? !now.last.is_known() : known->second == now) return;
    uses_.members.edit().served[volume.wwid] = now;
    uses_.members.save();
}

// Lines in engines must not be destaged over the writes of another owner. This process no longer can, and the
// next one checks this record before it opens the volume. Active writes may still make lines dirty.
void VolumeControl::note_lost_storage(const CachedVolume& volume) {
    if (!volume.may_be_dirty || !volume.open->volume().backend().lost()) return;
    const bool may_hold = uses_.recovery.holding() || volume.gate.active() > 0 ||
                          uses_.lines.index().dirty_lines(volume.number) > 0 ||
                          uses_.members.now().lost.any_of(volume.wwid);
    auto& lost = uses_.members.edit().storage_lost;
    const bool changed = may_hold ? lost.insert(volume.wwid).second : lost.erase(volume.wwid) > 0;
    if (changed) uses_.members.save();
}

// Write-back begins only when no header of an older volume can be mistaken for one of this volume: recovery
// wipes the lines of volumes that are not recorded as dirty.
bool VolumeControl::may_write_back(const CachedVolume& volume) const {
    return volume.settings.policy == Policy::kBack && !uses_.recovery.holding() &&
           !uses_.volumes.being_wiped(volume.wwid);
}

void VolumeControl::begin_write_back() {
    for (CachedVolume& volume : uses_.volumes.open())
        if (!volume.may_be_dirty && may_write_back(volume)) note_dirty(volume, true);
}

// A volume that was under write-back before the restart, but is not now, becomes clean when its recovered
// lines are destaged. Stable storage must record that an engine lost in the meantime is not a member.
void VolumeControl::note_clean_volumes() {
    if (uses_.recovery.holding() || uses_.members.pending()) return;
    for (CachedVolume& volume : uses_.volumes.open()) {
        if (!volume.may_be_dirty) continue;
        const bool lost = uses_.members.now().lost.any_of(volume.open->volume().wwid());
        if (volume.settings.policy != Policy::kBack && !lost &&
            uses_.lines.index().dirty_lines(volume.number) == 0)
            note_dirty(volume, false);
    }
}

void VolumeControl::check_single_copies() {
    if (uses_.recovery.holding()) return;
    if (uses_.lines.index().counters().dirty_lines == 0) uses_.losses.none_dirty();
    if (!uses_.members.now().degraded || !uses_.single.none()) return;
    uses_.members.edit().degraded = false;
    uses_.members.save();
}

void VolumeControl::membership_saved() {
    giving_up_.clear();
    uses_.recovery.check();
    uses_.datapath.membership_saved();
}

// Called when the losing copies are erased.
void VolumeControl::recovery_over() {
    uses_.single.want_all();
    for (CachedVolume& volume : uses_.volumes.open()) uses_.datapath.begin_held(volume);
    uses_.recovery.run_tasks();
    uses_.destager.tick();
}

void VolumeControl::note_lost_storage() {
    for (CachedVolume& volume : uses_.volumes.open()) note_lost_storage(volume);
}

void VolumeControl::tick() {
    uses_.members.retry();
    // The recorded state of the engines that the target is leaving is final.
    if (uses_.life.leaving()) return;
    for (CachedVolume& volume : uses_.volumes.open())
        volume.suspended = volume.open->volume().backend().suspended();
    note_lost_storage();
    note_owners();
    note_clean_volumes();
    begin_write_back();
    check_single_copies();
}

// ---- Freezing and flushing -------------------------------------------------------------------------------

bool VolumeControl::freeze(CachedVolume& volume, Stretch range, Frozen use,
                           std::function<void(int error)> done, Asker asker, const Cancelled* cancelled) {
    if (!volume.gate.freeze()) return false;
    auto saved = [&volume, done, cancelled] {
        done(volume.removed() ? ENXIO : is_cancelled(cancelled) ? EBUSY : 0);
    };
    auto dropped = [this, &volume, range, use, done = std::move(done), saved, cancelled](int error) {
        if (error != 0 || use == Frozen::kRead) return done(error);
        uses_.lines.drop(volume.number, range.offset, range.length, [this, &volume, saved, cancelled] {
            // SE2: only copies that were lost earlier still claim dirty data.
            uses_.members.when_saved(volume, saved, cancelled);
        });
        uses_.engines.flush_completions();
    };
    auto home = [this, &volume, range, asker, dropped = std::move(dropped), cancelled] {
        destage_range(volume, range, dropped, asker, cancelled);
    };
    auto quiet = [&volume, home = std::move(home), cancelled] { volume.gate.when_quiet(home, cancelled); };
    if (volume.gate.active() > 0) uses_.engines.flush_completions();
    uses_.recovery.waits(volume) ? uses_.recovery.when_over(volume, std::move(quiet), cancelled) : quiet();
    return true;
}

// Destages the whole volume if the range is empty or a line of the range is dirty. Otherwise it destages
// nothing, so that a discard works while the storage is full.
void VolumeControl::destage_range(CachedVolume& volume, Stretch range, std::function<void(int error)> done,
                                  Asker asker, const Cancelled* cancelled) {
    if (is_cancelled(cancelled)) return done(EBUSY);
    const bool known = range.length > 0 && !uses_.recovery.holds(volume) && !uses_.life.leaving() &&
                       !uses_.members.now().lost.any_of(volume.wwid) && !volume.removed();
    if (!known) return uses_.destager.flush(volume, std::move(done), asker, true, cancelled);
    auto dirty = std::make_shared<bool>(false);
    auto look = [dirty](const Line& line, const Lines::Ended& ended) {
        *dirty = *dirty || !line.dirty().empty();
        ended();
    };
    auto looked = [this, &volume, dirty, asker, done = std::move(done), cancelled] {
        // The walk did not visit a dirty line that was lost, or left in the engines, in the meantime. If that
        // line returned, it would be destaged over later writes.
        const bool needed = *dirty || uses_.members.now().lost.any_of(volume.wwid) || uses_.life.leaving();
        needed ? uses_.destager.flush(volume, done, asker, true, cancelled)
               : done(volume.removed() ? ENXIO : 0);
    };
    if (uses_.lines.index().dirty_lines(volume.number) == 0) return looked();
    uses_.lines.walk(volume.number, range.offset, range.length, look, std::move(looked));
}

void VolumeControl::thaw(CachedVolume& volume) noexcept {
    volume.gate.thaw();
    uses_.datapath.begin_held(volume);
}

void VolumeControl::destage_all(std::function<void(Status)> done) {
    auto left = std::make_shared<uint32_t>(1);
    auto failed = std::make_shared<Status>();
    auto one = [left, failed, done = std::move(done)](Status home) {
        if (!home && !*failed)
            *failed = failure(failed->code(), "{}; {}", failed->to_string(), home.to_string());
        else if (!home)
            *failed = std::move(home);
        if (--*left == 0) done(*failed);
    };
    for (CachedVolume& volume : uses_.volumes.open()) {
        ++*left;
        destage(volume, one);
    }
    one(Status::ok());
}

bool VolumeControl::any_dirty() const {
    for (const CachedVolume& volume : uses_.volumes.open())
        if (uses_.lines.index().dirty_lines(volume.number) > 0) return true;
    return false;
}

void VolumeControl::destage(CachedVolume& volume, std::function<void(Status)> done) {
    auto flushed = [this, &volume, done = std::move(done)](int error) {
        if (error == 0) return done(Status::ok());
        const std::string& name = volume.open->volume().name();
        const uint64_t dirty = uses_.lines.index().dirty_lines(volume.number);
        const bool lost = uses_.members.now().lost.any_of(volume.wwid);
        done(Status::from_errno(
            error,
            dirty > 0 ? fmt::format("volume {}: {} dirty lines are left in the cache", name, dirty)
            : lost ? fmt::format("volume {}: acknowledged writes are lost with engines that are away", name)
                   : fmt::format("volume {}: its lines are not destaged", name)));
    };
    uses_.destager.flush(volume, std::move(flushed), Asker::kOperator);
}

void VolumeControl::drain(const std::string& name, std::function<void(Status)> done) {
    if (uses_.recovery.holding() && !uses_.recovery.missing().empty()) return done(recovering());
    if (name.empty())
        return destage_all([this, done = std::move(done)](Status home) {
            Status others = uses_.recovery.holding() ? recovering() : uses_.absent.all_home("");
            done(home ? std::move(others) : std::move(home));
        });
    CachedVolume* volume = uses_.volumes.find(name);
    if (volume == nullptr) {
        Status kept = uses_.absent.all_home(name);
        return done(kept ? failure(Code::kNotFound, "there is no volume {} that can have a cache", name)
                         : std::move(kept));
    }
    if (volume->removed()) return done(failure(Code::kBusy, "volume {} is being deleted", name));
    destage(*volume, std::move(done));
}

// The error while recovery has not determined which lines engines hold.
Status VolumeControl::recovering() const {
    const auto missing = uses_.recovery.missing();
    if (missing.empty()) return failure(Code::kBusy, "dirty lines are being recovered; try again");
    return failure(
        Code::kBusy,
        "dirty lines are being recovered, and the recovery waits for the engines {:016x}; try again when "
        "they are back. If one of them will not come back, wssctl cache forget continues without it",
        fmt::join(missing, ", "));
}

void VolumeControl::give_up(const std::string& which, std::function<void(Result<uint64_t>)> done) {
    auto found = uses_.absent.to_give_up(which);
    if (auto before = giving_up_.find(which); !found && before != giving_up_.end())
        return record_given_up(which, before->second, std::move(done));
    if (!found) return done(found);
    CachedVolume* volume = uses_.volumes.find(*found);
    if (volume == nullptr && uses_.recovery.holding()) return done(recovering());
    volume == nullptr ? uses_.absent.give_up(*found) : uses_.losses.give_up(*volume);
    giving_up_[which] = *found;
    record_given_up(which, *found, std::move(done));
}

void VolumeControl::record_given_up(const std::string& which, uint64_t wwid,
                                    std::function<void(Result<uint64_t>)> done) {
    uses_.members.record([which, wwid, done = std::move(done)](const Status& status) {
        if (status) return done(wwid);
        done(status.within(
            fmt::format("the writes of volume {} are given up, but this is not yet recorded for the next "
                        "start: new writes wait until it is; the target keeps trying",
                        which)));
    });
}

// The next start finds the lines in engines.
void VolumeControl::end_waits() {
    if (!uses_.life.waits_are_over()) uses_.life.advance(Life::State::kEndingWaits);
    uses_.members.end_waits();
    for (CachedVolume& volume : uses_.volumes.open())
        if (uses_.recovery.holds(volume))
            uses_.datapath.end_held(volume, {.kind = CacheOutcome::Kind::kBusy});
    uses_.recovery.run_tasks();
    uses_.losses.tick();
}

void VolumeControl::end_cancelled() noexcept {
    uses_.recovery.run_cancelled();
    uses_.members.run_cancelled();
    for (CachedVolume& volume : uses_.volumes.open()) {
        volume.gate.run_cancelled();
        uses_.destager.end_cancelled(volume);
    }
    uses_.datapath.end_cancelled();
}

}  // namespace wss::cache
