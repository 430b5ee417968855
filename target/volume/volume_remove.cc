// SPDX-License-Identifier: Apache-2.0
// A volume is removed by a command.
//
//   prepare   who holds acknowledged data that its storage does not have brings it there, or refuses
//   record    the state file says that the volume is being deleted: a start in between finishes that
//   remove    every reactor lets go of it
//   forget    the record ends
#include <algorithm>

#include "lib/base/log.h"
#include "target/volume/volume_record.h"

namespace wss::volume {

// What is removed: of a removal by a command what was prepared, and nothing else of its name.
struct VolumeSet::Removal {
    RecordPtr record;  // nullptr: it is not open
    uint64_t wwid = 0;
    Deletion::Hold hold;

    static Result<Removal> find(VolumeSet& set, const std::string& name);  // m_ held
    static Result<Removal> prepare(VolumeSet& set, const std::string& name, const RemoveOptions& how);
    static Status begin(VolumeSet& set, const std::string& name, const Removal* prepared, Removal& removal);
    static void run(VolumeSet& set, const std::string& name, const Removal* prepared, Done done);
};

// One that is being opened is more than a line in the state file.
Result<VolumeSet::Removal> VolumeSet::Removal::find(VolumeSet& set, const std::string& name) {
    if (const auto* unopened = set.unopened_.find(name);
        unopened != nullptr && !set.records_.contains(name)) {
        auto known = set.known_.find(name);
        return Removal{.wwid = known != set.known_.end() ? known->second.identity.wwid
                                                         : unopened->stored.identity.wwid};
    }
    auto live = set.find_live(name);
    if (!live) return live.status();
    return Removal{.record = *live, .wwid = (*live)->identity.wwid};
}

Result<VolumeSet::Removal> VolumeSet::Removal::prepare(VolumeSet& set, const std::string& name,
                                                       const RemoveOptions& how) {
    Result<Removal> removal = [&] {
        std::lock_guard lock(set.m_);
        return find(set, name);
    }();
    if (!removal || !set.options_.before_deletion) return removal;
    auto hold = std::make_shared<Deletion::Hold>();
    Status ready = set.wait_for("deleting volume " + name, [&](Done done) {
        set.options_.before_deletion(
            {.wwid = removal->wwid,
             .name = name,
             .give_up_dirty = how.give_up_dirty,
             .limit = {set.options_.wait.count / 2},  // so that a slow thread's answer is still waited for
             .answer = [hold, done = std::move(done)](Status status, Deletion::Hold held) {
                 *hold = std::move(held);
                 done(std::move(status));
             }});
    });
    if (ready.code() == Code::kTimedOut)
        return failure(Code::kTimedOut,
                       "volume {} is not deleted: its reactor did not answer within {} s; try again", name,
                       set.options_.wait.count / 1'000'000'000);
    if (!ready) return ready;
    removal->hold = std::move(*hold);
    return removal;
}

Status VolumeSet::Removal::begin(VolumeSet& set, const std::string& name, const Removal* prepared,
                                 Removal& removal) {
    std::lock_guard lock(set.m_);
    auto found = find(set, name);
    if (!found) return found.status();
    if (prepared != nullptr && (prepared->record != found->record || prepared->wwid != found->wwid))
        return failure(Code::kBusy, "volume {} was opened, or deleted, meanwhile; try again", name);
    removal = std::move(*found);
    if (removal.record) {
        removal.record->state = Record::State::kRemoving;
        return Status::ok();
    }
    set.unopened_.erase(name);
    set.known_.erase(name);
    return Status::ok();
}

void VolumeSet::Removal::run(VolumeSet& set, const std::string& name, const Removal* prepared, Done done) {
    Removal removal;
    if (Status begun = begin(set, name, prepared, removal); !begun) return done(begun);
    if (removal.record)
        return set.close_on_reactors(removal.record, [&set, record = removal.record, done](Status status) {
            set.forget(record, true);
            done(status);
        });
    auto recorded = [&set, gone = removal.wwid, done = std::move(done)] {
        set.end_deletion(gone);
        done(Status::ok());
    };
    if (!set.options_.deleted || removal.wwid == 0) return recorded();
    set.options_.deleted(removal.wwid, std::move(recorded));
}

void VolumeSet::remove_async(const std::string& name, Done done) {
    Removal::run(*this, name, nullptr, std::move(done));
}

// It is stable that the volume is being deleted before any of it goes: a start in between finishes that.
Status VolumeSet::remove(const std::string& name, const RemoveOptions& how) {
    // Until it is gone, so that nothing is acknowledged that would go with it.
    const auto prepared = Removal::prepare(*this, name, how);
    if (!prepared) return prepared.status();
    std::optional<uint64_t> doomed;
    // By somebody else, whose record of that must stay until it is over.
    auto is_being_deleted = [&] {
        std::lock_guard lock(m_);
        auto known = known_.find(name);
        return known != known_.end() &&
               std::any_of(deleting_.begin(), deleting_.end(), [&](const StoredVolume& stored) {
                   return stored.identity == known->second.identity;
               });
    };
    {
        std::lock_guard changing(change_m_);
        if (is_being_deleted()) return failure(Code::kBusy, "volume {} is being deleted", name);
        doomed = note_deletion(name);
        Status saved = doomed ? save() : Status::ok();
        if (!saved) {
            end_deletion(*doomed);
            save_again();
            return saved.within(fmt::format("volume {} is not deleted", name));
        }
    }
    // It may outlast the wait: its record ends with it, or here if it did not begin.
    Status removed = wait_for("removing volume " + name, [&](const Done& done) {
        Removal::run(*this, name, &*prepared, [this, doomed, done](Status status) {
            if (doomed && !status) end_deletion(*doomed);
            done(std::move(status));
        });
    });
    if (!removed) return removed;
    std::lock_guard changing(change_m_);
    if (Status saved = save(); !saved)
        log::warning("{}: the next start deletes volume {} again", saved.to_string(), name);
    return Status::ok();
}

}  // namespace wss::volume
