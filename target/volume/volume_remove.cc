// SPDX-License-Identifier: Apache-2.0
// VolumeSet: removes a volume by a command.
//
//   prepare   the receiver of the Deletion writes to storage the acknowledged data that it lacks, or refuses
//   record    the state file records the deletion, so that a restart in between completes it
//   remove    every reactor releases the volume
//   forget    the record is dropped
#include <algorithm>

#include "lib/base/log.h"
#include "target/volume/volume_record.h"

namespace wss::volume {

// The removal of one volume. It never affects a later volume of the same name.
struct VolumeSet::Removal {
    RecordPtr record;  // nullptr: the volume is not open
    uint64_t wwid = 0;
    Deletion::Hold hold;
    bool noted = false;  // the state file records the deletion

    static Result<Removal> find(VolumeSet& set, const std::string& name);  // m_ held
    static Result<Removal> prepare(VolumeSet& set, const std::string& name, const RemoveOptions& how);
    Status begin(VolumeSet& set, const std::string& name);
    void take_back(VolumeSet& set);
    void run(VolumeSet& set, const std::string& name, Done done) const;
};

// A volume that is being opened again has a record, and find_live() refuses it.
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
             .limit = {set.options_.wait.count / 2},  // leaves time for a slow thread to answer
             .answer = [hold, done = std::move(done)](Status status, Deletion::Hold held) {
                 *hold = std::move(held);
                 done(std::move(status));
             }});
    });
    if (ready.code() == Code::kTimedOut)
        return failure(Code::kTimedOut,
                       "volume {} was not deleted: its reactor did not answer within {} s; try again", name,
                       set.options_.wait.count / 1'000'000'000);
    if (!ready) return ready;
    removal->hold = std::move(*hold);
    return removal;
}

// After this no other command opens or removes the volume.
Status VolumeSet::Removal::begin(VolumeSet& set, const std::string& name) {
    std::lock_guard lock(set.m_);
    if (set.ends_) return Status(Code::kClosed, "the target is stopping");
    if (set.is_being_deleted(name)) return failure(Code::kBusy, "volume {} is being deleted", name);
    auto found = find(set, name);
    if (!found) return found.status();
    if (record != found->record || wwid != found->wwid)
        return failure(Code::kBusy, "volume {} was opened or deleted meanwhile; try again", name);
    // An open declared volume keeps its identity, so its deletion is not recorded.
    auto known = set.known_.find(name);
    noted = known != set.known_.end() && !(record && record->options.declared);
    if (noted)
        set.deleting_.push_back({.options = {.name = name, .declared = true},
                                 .identity = known->second.identity,
                                 .deleted = true});
    if (!record) return Status::ok();
    record->state = Record::State::kRemoving;
    record->removed->store(true);
    return Status::ok();
}

void VolumeSet::Removal::take_back(VolumeSet& set) {
    if (noted) set.end_deletion(wwid);
    if (!record) return;
    {
        std::lock_guard lock(set.m_);
        record->state = Record::State::kLive;
        record->removed->store(false);
    }
    // A loss reported in the meantime did not reach the reactors.
    if (record->volume->lost())
        set.notify_reactors(record->volume, {.change = Change::kAccess, .access = nobody()},
                            [](const Status&) {});
}

void VolumeSet::Removal::run(VolumeSet& set, const std::string& name, Done done) const {
    if (record)
        return set.close_on_reactors(record, [&set, removed = record, done](Status status) {
            set.forget(removed, true);
            done(status);
        });
    {
        std::lock_guard lock(set.m_);
        set.unopened_.erase(name);
        // Initiators may still use its LUN, for instance if the volume's reopening failed.
        if (auto known = set.known_.find(name); known != set.known_.end()) {
            set.former_luns_.push_back(known->second.identity.lun);
            set.known_.erase(known);
        }
    }
    if (set.options_.forgotten) set.options_.forgotten(wwid);
    auto recorded = [&set, gone = wwid, done = std::move(done)] {
        set.end_deletion(gone);
        done(Status::ok());
    };
    if (!set.options_.deleted || wwid == 0) return recorded();
    set.options_.deleted(wwid, std::move(recorded));
}

void VolumeSet::remove_async(const std::string& name, Done done) {
    Result<Removal> removal = [&] {
        std::lock_guard lock(m_);
        return Removal::find(*this, name);
    }();
    if (!removal) return done(removal.status());
    if (Status begun = removal->begin(*this, name); !begun) return done(begun);
    removal->run(*this, name, std::move(done));
}

// The deletion is on stable storage before anything of the volume is deleted, so that a restart in between
// completes it.
Status VolumeSet::remove(const std::string& name, const RemoveOptions& how) {
    // Held until the volume is gone, so that no write is acknowledged and then lost with it.
    auto removal = Removal::prepare(*this, name, how);
    if (!removal) return removal.status();
    {
        std::lock_guard changing(change_m_);
        WSS_TRY(removal->begin(*this, name));
        Status saved = removal->noted ? save() : Status::ok();
        if (!saved) {
            removal->take_back(*this);
            save_again();
            return saved.within(fmt::format("volume {} was not deleted", name));
        }
    }
    // This may outlast the wait. The deletion record is dropped when it is complete.
    Status removed = wait_for("removing volume " + name, [&](const Done& done) {
        removal->run(*this, name, [this, wwid = removal->wwid, done](Status status) {
            if (!status) end_deletion(wwid);
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
