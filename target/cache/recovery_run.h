// SPDX-License-Identifier: Apache-2.0
// RecoveryRun: finds dirty lines after a restart (lib/cache/recovery.h). It waits for the engines that were
// members when the last run ended, or for all of them but one. Then it restores the lines that they hold, and
// erases the copies that lost the comparison.
//
//   kWaitingForMost ─▶ kWaitingForAll ─▶ kErasing ─▶ kOver      each is entered at most once
//
//   kWaitingForMost  one engine may be missing, if every line had two copies
//   kWaitingForAll   some dirty lines may have only one copy
//   kErasing         the lines are restored; copies that lost the comparison still claim dirty data
//
// Until kOver, commands of volumes that may be dirty wait (holds()), and no line is placed in an engine.
//
// It owns the headers that returned engines have sent, and the tasks that wait for the end of recovery. It
// calls the members, the engines, the index, the losses and the absent volumes. It reports its end to the
// observer.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates, except in inline functions.
#pragma once

#include <memory>
#include <vector>

#include "lib/cache/recovery.h"
#include "lib/reactor/reactor.h"
#include "target/cache/absent_volumes.h"
#include "target/cache/engine_set.h"
#include "target/cache/life.h"
#include "target/cache/losses.h"
#include "target/cache/members.h"
#include "target/cache/postponed.h"
#include "target/cache/single_copies.h"

namespace wss::cache {

class RecoveryObserver {
  public:
    // Held commands may begin. The observer calls RecoveryRun::run_tasks().
    virtual void recovery_over() = 0;

  protected:
    ~RecoveryObserver() = default;
};

class RecoveryRun {
  public:
    // What it calls.
    struct Uses {
        Members& members;
        EngineSet& engines;
        Index& index;
        CachedVolumes& volumes;
        Losses& losses;
        AbsentVolumes& absent;
        SingleCopies& single;
    };
    RecoveryRun(const Uses& uses, Nanoseconds grace, const Life& life, reactor::Reactor& reactor, Turn& turn,
                RecoveryObserver& observer);
    ~RecoveryRun();

    // Begins with what the last run saved. Requires that Members::load() was called before.
    Status begin(uint32_t line_bytes);
    // Engines can join from now on, so the grace period begins. Opening the volumes may have taken minutes
    // before this.
    void engines_may_join() noexcept { began_ = reactor_.clock().now(); }
    // True while recovery waits for engines.
    bool waiting() const noexcept { return state_ <= State::kWaitingForAll; }
    // True until recovery is over: while it waits for engines, or erases the claims of copies that lost the
    // comparison.
    bool holding() const noexcept { return state_ != State::kOver; }
    // True if the volume's commands must wait, because recovery may find dirty lines of it. Commands of other
    // volumes go to real storage in the meantime.
    bool holds(const CachedVolume& volume) const noexcept { return holding() && volume.may_be_dirty; }
    bool waits(const CachedVolume& volume) const noexcept { return holds(volume) && !life_.waits_are_over(); }
    Nanoseconds began() const noexcept { return began_; }
    // Identities of the awaited engines that have not returned.
    std::vector<uint64_t> missing() const;

    // ---- Engines
    void take_item(const EngineLink& engine, const wire::CacheHeader& item);
    void engine_lost(EngineIndex engine);
    // Checks whether recovery can continue.
    void check();
    // The operator gives up waiting for engines that have not returned. If they may have acknowledged writes
    // that no other engine has, every volume with such writes is lost as a whole until it is given up.
    void forget_awaited();
    void turn() {
        if (holding()) go_on();
    }

    // ---- Tasks
    void when_over(CachedVolume& volume, std::function<void()> task, const Cancelled* cancelled = nullptr) {
        tasks_.add(volume, std::move(task), cancelled);
    }
    void run_cancelled() { tasks_.run_cancelled(); }
    void run_tasks() { tasks_.run(nullptr); }
    void wait_no_more(const CachedVolume& volume) { tasks_.run(&volume); }

  private:
    enum class State : uint8_t { kWaitingForMost, kWaitingForAll, kErasing, kOver };
    struct SlotErase;

    void advance(State next) noexcept;
    bool finds_all(size_t back) const;
    bool may_finish(size_t back) const;
    Members::Engines back() const;
    void log_wait();
    void note_forgotten();
    void finish();
    void go_on();
    void compare();
    void erase();
    void begin_erase(const Recovery::Loser& loser);
    void end();

    const Uses uses_;
    const Nanoseconds grace_;
    const Life& life_;
    reactor::Reactor& reactor_;
    Turn& turn_;
    RecoveryObserver& observer_;
    State state_ = State::kOver;
    bool forgotten_ = false;  // the operator's command: continue without the missing engines
    bool wait_is_told_ = false;
    Nanoseconds began_{};
    std::unique_ptr<Recovery> found_;      // until kOver
    std::unique_ptr<SlotErase[]> erases_;  // while kErasing
    std::vector<SlotErase*> free_erases_;
    Postponed tasks_;
};

}  // namespace wss::cache
