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

void VolumeSet::remove_async(const std::string& name, Done done) {
    uint64_t gone = 0;
    bool unopened = false;
    {
        std::lock_guard lock(m_);
        // One that is being opened is more than a line in the state file.
        unopened = !records_.contains(name) && unopened_.erase(name);
        auto known = known_.find(name);
        if (unopened && known != known_.end()) {
            gone = known->second.identity.wwid;
            known_.erase(known);
        }
    }
    if (unopened) {
        auto recorded = [this, gone, done = std::move(done)] {
            end_deletion(gone);
            done(Status::ok());
        };
        if (!options_.deleted || gone == 0) return recorded();
        return options_.deleted(gone, std::move(recorded));
    }
    Result<RecordPtr> record = [&] {
        std::lock_guard lock(m_);
        auto live = find_live(name);
        if (live) (*live)->state = Record::State::kRemoving;
        return live;
    }();
    if (!record) return done(record.status());
    close_on_reactors(*record, [this, record = *record, done](Status status) {
        forget(record, true);
        done(status);
    });
}

// What a removal by a command does first.
struct VolumeSet::Removal {
    static Result<Deletion::Hold> prepare(VolumeSet& set, const std::string& name, const RemoveOptions& how);
};

// What is not found, or is being made or removed, the removal itself refuses.
Result<Deletion::Hold> VolumeSet::Removal::prepare(VolumeSet& set, const std::string& name,
                                                   const RemoveOptions& how) {
    const auto volume = set.find(name);
    if (!set.options_.before_deletion || !volume || volume->removing) return Deletion::Hold();
    auto hold = std::make_shared<Deletion::Hold>();
    Status ready = set.wait_for("deleting volume " + name, [&](Done done) {
        set.options_.before_deletion(
            {.wwid = volume->identity.wwid,
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
    const auto now = set.find(name);
    if (!now || now->identity != volume->identity || now->closed != volume->closed)
        return failure(Code::kBusy, "volume {} was opened, or deleted, meanwhile; try again", name);
    return std::move(*hold);
}

// It is stable that the volume is being deleted before any of it goes: a start in between finishes that.
Status VolumeSet::remove(const std::string& name, const RemoveOptions& how) {
    // Until it is gone, so that nothing is acknowledged that would go with it.
    const auto hold = Removal::prepare(*this, name, how);
    if (!hold) return hold.status();
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
        remove_async(name, [this, doomed, done](Status status) {
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
