// SPDX-License-Identifier: Apache-2.0
// Members: the current membership (membership.h), and how much of it is on stable storage.
//
//   kStable ─save()─▶ kChanged ─turn()─▶ kSaving ─saved─▶ kStable: waiting tasks run
//                      ▲     ▲              │ save()
//                      │     └──saved── kSavingOld    the membership being saved is not the latest
//                   retry()
//                      └── kUnsaved ◀─failed─ either
//
//   kStable ─probe()─▶ kProbing ─▶ kStable, or ─save()─▶ kSavingOld: writes the saved membership once more
//
// All changes of a turn are saved together, so that no restart finds only some of them. A restart may also
// find a membership whose save has failed or is in progress. The contents of such a membership delay writes
// as well.
//
// It owns the store, the save in progress and the tasks that wait for it. After a save it notifies its
// observer first, then runs the tasks.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates, except in inline functions.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "target/cache/membership.h"
#include "target/cache/postponed.h"
#include "target/cache/turn.h"

namespace wss::cache {

class MembersObserver {
  public:
    // Everything in Members::now() is on stable storage.
    virtual void membership_saved() = 0;

  protected:
    ~MembersObserver() = default;
};

class Members {
  public:
    using Engines = std::map<uint64_t, uint32_t>;  // identity → incarnation

    Members(std::unique_ptr<MembershipStore> store, Turn& turn, MembersObserver& observer)
        : store_(std::move(store)), turn_(turn), observer_(observer) {}

    // Loads what the last run saved. The contents of awaited engines count: these engines stay members on
    // stable storage until settle().
    Status load();
    void await_engines();
    void await_only(Engines engines) { awaited_ = std::move(engines); }
    void settle() noexcept { awaited_.clear(); }
    const Engines& awaited() const noexcept { return awaited_; }

    // Returns false if the saved membership is lost when the process ends.
    bool is_stable() const noexcept { return store_->is_stable(); }
    const Membership& now() const noexcept { return now_; }
    // The caller must call save(), now or with the next change.
    Membership& edit() noexcept { return is_final_ ? after_end_ : now_; }
    void save();
    // The saved state is final. Later changes are ignored: they result from closing the links to the
    // remaining engines.
    void conclude() noexcept { is_final_ = true; }
    // Saves the changes that were made since the last turn.
    void turn();
    // Called at each tick: retries a failed save, and saves which lost lines were destaged.
    void retry();

    // True if this engine is away and may return with lost data.
    bool is_away(uint64_t identity, uint32_t incarnation) const noexcept {
        auto known = now_.away.find(identity);
        return known != now_.away.end() && known->second == incarnation;
    }

    // True if a part of now() is not on stable storage.
    bool pending() const noexcept { return state_ != State::kStable && state_ != State::kProbing; }
    // Whether a write of the volume must wait for the save. After a restart, a stale or given-up copy in an
    // engine can undo the write. That happens only if the copy claims to be dirty and the membership that the
    // restart loads records the volume as dirty.
    bool delays(const CachedVolume& volume) const noexcept {
        return pending() && (volume.may_be_dirty || found_.dirty.contains(volume.wwid));
    }
    // Runs the task now if delays() is false, otherwise after the save. The task must check whether the
    // volume was removed in the meantime.
    void when_saved(CachedVolume& volume, std::function<void()> task, const Cancelled* cancelled = nullptr);
    void run_cancelled() { waiting_.run_cancelled(); }
    // Runs the task when now() is on stable storage. The data that the task destroys must be invalid by
    // then, because a restart in between would find only a part of it.
    void when_recorded(std::function<void()> task);
    // Saves the membership. Calls `done` when it is stable, or with the reason why it is not yet. In that
    // case retry() keeps trying.
    void record(std::function<void(const Status&)> done);
    // Tests whether a change could be saved now. An optional change is rejected while saving fails, because
    // writes would have to wait for it. `done` must check whether the volume was removed in the meantime.
    void probe(CachedVolume& volume, std::function<void(const Status&)> done);
    // Why the last save failed.
    const Status& trouble() const noexcept { return trouble_; }
    // Called when the volume is being removed.
    void wait_no_more(const CachedVolume& volume) {
        waiting_.run(&volume);
        notify_recorders(Status(Code::kNotFound, "the volume is gone"), &volume);
    }
    // The target is stopping: outstanding calls of record() and probe() end with BUSY.
    void end_waits() { notify_recorders(stopping(), nullptr); }
    void forget_tasks() noexcept {
        waiting_.clear();
        recorders_.clear();
    }
    // True if a restart may find this engine as a member. The engine must then keep its contents until
    // another membership is saved.
    bool counts_when_saved(uint64_t identity, uint32_t incarnation) const noexcept {
        return found_.engines.contains({identity, incarnation});
    }

    // Records a lost line that was destaged. The membership that is saved or being saved still records it as
    // lost.
    void destaged(uint64_t wwid, uint64_t line) { destaged_.insert({wwid, line}); }
    bool is_home_unsaved(uint64_t wwid, uint64_t line) const { return destaged_.contains({wwid, line}); }
    bool any_home_unsaved() const noexcept { return !destaged_.empty(); }

  private:
    enum class State : uint8_t { kStable, kChanged, kSaving, kSavingOld, kUnsaved, kProbing };
    // Engines and volumes whose contents count.
    struct Counting {
        // Identity and incarnation. Includes engines that are away.
        std::set<std::pair<uint64_t, uint32_t>> engines;
        std::set<uint64_t> dirty;  // WWIDs
        void add(const Membership& membership, const Engines& members);
    };
    static Status stopping() { return Status(Code::kBusy, "the target is stopping"); }
    void change();
    void write(const std::string& text);
    void saved(const Status& status);
    struct Recorder {
        const CachedVolume* volume;  // nullptr: the caller waits for no volume
        Gate::Holder place;
        std::function<void(const Status&)> done;
    };
    // Notifies all recorders, or only those of one volume.
    void notify_recorders(const Status& status, const CachedVolume* of);
    bool saving() const noexcept {
        return state_ == State::kSaving || state_ == State::kSavingOld || state_ == State::kProbing;
    }

    const std::unique_ptr<MembershipStore> store_;
    Turn& turn_;
    MembersObserver& observer_;
    Membership now_, after_end_;
    bool is_final_ = false;
    State state_ = State::kStable;
    Engines awaited_;
    std::string saving_text_, saved_text_;
    Counting saving_, found_;  // what counts in the membership being saved, and in all memberships that a
                               // restart may find
    Status trouble_;
    std::list<Recorder> recorders_;
    std::set<std::pair<uint64_t, uint64_t>> destaged_;
    Postponed waiting_;
};

}  // namespace wss::cache
