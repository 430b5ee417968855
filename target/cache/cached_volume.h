// SPDX-License-Identifier: Apache-2.0
// CachedVolume: a volume that the cache serves. Its gate says how long it lives (volume_gate.h).
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include "lib/base/gate.h"
#include "lib/cache/destage.h"
#include "lib/cache/readahead.h"
#include "target/cache/info.h"
#include "target/cache/remote.h"
#include "target/cache/volume_gate.h"
#include "target/volume/volume.h"

namespace wss::se {

// Who flushes: a client has to hear once of acknowledged writes that were given up; that an operator's drain
// or stop fails tells it nothing.
enum class Asker : uint8_t { kClient, kOperator };

// The block service's commands on a volume that wait for engines to bring back what is lost
// (Cache::awaits()).
class LostWaiters {
  public:
    // The wait of some may be over: look() checks each of them once.
    virtual void look_due() noexcept = 0;
    // Checks at most `left`, which it counts down. True: some are still to be checked.
    virtual bool look(size_t& left) noexcept = 0;
    virtual uint64_t count() noexcept = 0;

  protected:
    ~LostWaiters() = default;
};

struct CachedVolume {
    uint32_t number = 0;  // in the index
    uint64_t wwid = 0;
    volume::OpenVolume* open = nullptr;
    RemoteQueue* remote = nullptr;  // its queue, if real storage is on another node
    cache::PolicySettings settings;
    bool may_be_dirty = false;  // as Membership::dirty says; set by VolumeControl::note_dirty() alone
    // As its storage says (io::Backend), at each tick: others may have written it. Nothing is answered from
    // engines, or acknowledged by them alone.
    bool suspended = false;
    // Its contents are being dropped (reopen.cc), some lines each turn: nothing is brought home any more,
    // over what another owner has written.
    bool given_up = false;
    VolumeGate gate;
    uint32_t works = 0;  // its commands that are not released
    // Of remove_volume(), until it has found the lines that are to be erased.
    Gate::Holder removal;
    bool gone = false;  // nobody refers to it: freed, and its number free, at the next turn
    std::unique_ptr<cache::DestagePlanner> planner;
    std::unique_ptr<cache::ReadAhead> ahead;
    struct Flush {
        Gate::Holder place;
        uint64_t mark = 0;
        Asker asker = Asker::kClient;
        bool holds = false;  // commands of the volume wait for it
        std::function<void(int error)> done;
    };
    std::list<Flush> flushes;
    CacheCounters counters;
    uint64_t hit_ns = 0;     // what a delegated read took whose end was heard of at once
    std::string last_error;  // of destaging
    // Others made its storage smaller (EFBIG), and it has not followed yet: since when, and when that was
    // seen last.
    struct {
        Nanoseconds since = kNever, seen = kNever;
    } smaller;
    Nanoseconds opened{};            // what was lost before that is waited for since then
    LostWaiters* waiters = nullptr;  // the unit's, which has a place in the gate; nullptr: none any more
    // Of a loss: a flush has failed for it; the next one has to, though what it is about was given up.
    bool loss_told = true, fail_next_flush = false;

    bool removed() const noexcept { return gate.closed(); }
    bool serves() const noexcept { return settings.policy != cache::Policy::kNone && !suspended; }
    // What its writes go by: nothing is written back of a volume that is not recorded as dirty.
    cache::PolicySettings for_writes() const noexcept {
        const bool not_yet = settings.policy == cache::Policy::kBack && !may_be_dirty;
        return not_yet ? cache::PolicySettings{.policy = cache::Policy::kThrough} : settings;
    }
};

}  // namespace wss::se
