// SPDX-License-Identifier: Apache-2.0
// CachedVolume: a volume that the cache serves. It lives until its gate is empty (volume_gate.h).
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

namespace wss::cache {

// What the operation that freezes a volume does with its range on real storage.
enum class Frozen : uint8_t { kRead, kChanged };
// The origin of a flush. If acknowledged writes were given up, a flush of a client must fail once. A failed
// flush for an operator's drain or stop does not replace that failure.
enum class Asker : uint8_t { kClient, kOperator };

// The block service's commands on a volume that wait for engines to return with lost data (Cache::awaits()).
class LostWaiters {
  public:
    // The wait of some commands may have ended. look() then checks each of them once.
    virtual void look_due() noexcept = 0;
    // Checks at most `left` commands, and decrements `left` for each. Returns true if some are still to be
    // checked.
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
    PolicySettings settings;
    bool may_be_dirty = false;  // as in Membership::dirty; set only by VolumeControl::note_dirty()
    // True if others may have written to its storage (io::Backend::suspended()). Read at each tick, and at
    // once if the storage is on another node. While it is true, engines answer no reads, and no write is
    // acknowledged by engines alone.
    bool suspended = false;
    // Its contents are being dropped (reopen.cc), some lines each turn. In the meantime nothing is destaged,
    // because that would overwrite data of another owner.
    bool given_up = false;
    VolumeGate gate;
    // Share of the unreleased commands of the cache's reactor.
    CommandShareRef commands = CommandShareRef::make();
    // Held by VolumeControl::remove() until it has found the lines to be erased.
    Gate::Holder removal;
    bool gone = false;  // no user is left; the volume is freed in the next turn, and its number may be reused
    std::unique_ptr<DestagePlanner> planner;
    std::unique_ptr<ReadAhead> ahead;
    struct Flush {
        Gate::Holder place;
        uint64_t mark = 0;
        Asker asker = Asker::kClient;
        bool holds = false;  // commands of the volume wait for this flush
        std::function<void(int error)> done;
        const Cancelled* cancelled = nullptr;
    };
    std::list<Flush> flushes;
    CacheCounters counters;
    uint64_t hit_ns = 0;     // latency of the last delegated read that was reported at once
    std::string last_error;  // of destaging
    // Others made its storage smaller (EFBIG), but the volume does not have the new size yet. These are the
    // times of the first and of the latest such error.
    struct {
        Nanoseconds since = kNever, seen = kNever;
    } smaller;
    Nanoseconds opened{};  // when it was opened; waits for data that was lost earlier count from here
    // The waiters of its units, one on each reactor, which have places in the gate. Empty when the volume is
    // removed.
    std::vector<LostWaiters*> waiters;
    // Whether a flush has reported the loss, and whether the next flush must fail although the lost data was
    // given up.
    bool loss_told = true, fail_next_flush = false;

    bool removed() const noexcept { return gate.closed(); }
    bool serves() const noexcept { return settings.policy != Policy::kNone && !suspended; }
    // The policy for its writes. It is not write-back before the volume is recorded as dirty.
    PolicySettings for_writes() const noexcept {
        const bool not_yet = settings.policy == Policy::kBack && !may_be_dirty;
        return not_yet ? PolicySettings{.policy = Policy::kThrough} : settings;
    }
};

}  // namespace wss::cache
