// SPDX-License-Identifier: Apache-2.0
// RecoveryRun: finds dirty lines after a restart (lib/cache/recovery.h). It waits for the engines that were
// members when the last run ended, or for all of them but one; restores what they hold; and has copies that
// lost erased.
//
//   kWaitingForMost ─▶ kWaitingForAll ─▶ kErasing ─▶ kOver      states may be skipped, none comes back
//
//   kWaitingForMost  one engine may be missing, if every line had two copies
//   kWaitingForAll   some dirty lines may have one copy only
//   kErasing         the lines are restored; copies that lost still claim dirty data
//
// Until kOver, commands of volumes that may be dirty wait (holds()), and no line gets a place in an engine.
//
// It owns what the engines that are back have shown, and the tasks that wait for its end. It calls the
// members, the engines, the index, the losses and the absent volumes; its end it reports to the observer.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates, but for what is inline.
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

namespace wss::se {

class RecoveryObserver {
  public:
    // Commands that were held may begin. RecoveryRun::run_tasks() follows from there.
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
        cache::Index& index;
        CachedVolumes& volumes;
        Losses& losses;
        AbsentVolumes& absent;
        SingleCopies& single;
    };
    RecoveryRun(const Uses& uses, Nanoseconds grace, const Life& life, reactor::Reactor& reactor, Turn& turn,
                RecoveryObserver& observer);
    ~RecoveryRun();

    // From what the last run saved: Members::load() came before.
    Status begin(uint32_t line_bytes);
    // The wait for engines begins: they cannot come before. To open the volumes may have taken minutes.
    void engines_may_join() noexcept { began_ = reactor_.clock().now(); }
    // Engines are waited for; … and what they hold is not restored, or others still claim it.
    bool waiting() const noexcept { return state_ <= State::kWaitingForAll; }
    bool holding() const noexcept { return state_ != State::kOver; }
    // The volume's commands wait: recovery may find dirty lines of it. Others are served by real storage
    // meanwhile.
    bool holds(const CachedVolume& volume) const noexcept { return holding() && volume.may_be_dirty; }
    bool waits(const CachedVolume& volume) const noexcept { return holds(volume) && !life_.waits_are_over(); }
    Nanoseconds began() const noexcept { return began_; }
    // Identities of the engines that are waited for and not here.
    std::vector<uint64_t> missing() const;

    // ---- Engines
    void take_item(const EngineLink& engine, const wire::CacheHeader& item);
    void engine_lost(cache::EngineIndex engine);
    // Whether it can go on.
    void check();
    // The operator does not wait for engines that are not back. If they may have acknowledged writes that no
    // other engine has, every volume with such writes is lost as a whole until it is given up.
    void forget_awaited();
    void turn() {
        if (holding()) go_on();
    }

    // ---- Tasks
    void when_over(CachedVolume& volume, std::function<void()> task) { tasks_.add(volume, std::move(task)); }
    void run_tasks() { tasks_.run(nullptr); }
    void wait_no_more(const CachedVolume& volume) { tasks_.run(&volume); }

  private:
    enum class State : uint8_t { kWaitingForMost, kWaitingForAll, kErasing, kOver };
    struct SlotErase;

    void advance(State next) noexcept;
    bool finds_all(size_t back) const;
    bool may_finish(size_t back) const;
    Members::Engines back() const;
    void tell_of_wait();
    void note_forgotten();
    void finish();
    void go_on();
    void compare();
    void erase();
    void begin_erase(const cache::Recovery::Loser& loser);
    void end();

    const Uses uses_;
    const Nanoseconds grace_;
    const Life& life_;
    reactor::Reactor& reactor_;
    Turn& turn_;
    RecoveryObserver& observer_;
    State state_ = State::kOver;
    bool forgotten_ = false;  // the operator's command: without those that are not here
    bool wait_is_told_ = false;
    Nanoseconds began_{};
    std::unique_ptr<cache::Recovery> found_;  // until it is over
    std::unique_ptr<SlotErase[]> erases_;     // while kErasing
    std::vector<SlotErase*> free_erases_;
    Postponed tasks_;
};

}  // namespace wss::se
