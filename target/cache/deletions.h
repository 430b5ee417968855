// SPDX-License-Identifier: Apache-2.0
// Deletions: volumes that commands delete. The storage of such a volume stays, so that it must get what
// engines alone have:
//
//   bring home   commands go on
//   freeze       no command begins; those that have begun end
//   bring home   what they wrote meanwhile
//   answer       the volume stays frozen until whoever removes it drops the hold
//
// If storage fails, or takes too long for that or for a command that has begun, or engines that are away
// have the data, the deletion is refused and the volume goes on. Nothing of this concerns RAM volumes, whose
// contents go with them: they have no cache (VolumeControl::add()).
//
// It owns the deletions that wait. It calls the parts of its Uses.
//
// Thread-safety: belongs to the cache's reactor; a hold may be dropped on any thread. Control plane:
// allocates.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include "target/cache/volume_control.h"

namespace wss::se {

class Deletions {
  public:
    // What it calls.
    struct Uses {
        const cache::Index& index;
        EngineSet& engines;
        const Members& members;
        CachedVolumes& volumes;
        const Losses& losses;
        AbsentVolumes& absent;
        const RecoveryRun& recovery;
        Destager& destager;
        VolumeControl& control;
        const Life& life;
    };
    Deletions(const Uses& uses, uint32_t line_bytes, reactor::Reactor& reactor)
        : uses_(uses), line_bytes_(line_bytes), reactor_(reactor) {}

    // Before anything of the volume is deleted.
    void prepare(volume::Deletion deletion);
    // It was deleted, and was not open: see AbsentVolumes::deleted().
    void over(uint64_t wwid, std::function<void()> recorded) {
        uses_.absent.deleted(wwid, std::move(recorded));
    }
    // Ends those whose time is over, and all when the target ends.
    void tick();

  private:
    struct Pending;
    using PendingRef = std::shared_ptr<Pending>;
    static Status replaced(const Pending& pending);
    Status refusal(const CachedVolume& volume, const std::string& why) const;
    void bring_home(const PendingRef& pending);
    void came_home(const PendingRef& pending, int error);
    void time_is_over(const PendingRef& pending);
    void end(PendingRef pending, Status status);
    volume::Deletion::Hold hold_of(CachedVolume& volume);

    const Uses uses_;
    const uint32_t line_bytes_;
    reactor::Reactor& reactor_;
    std::list<PendingRef> pending_;
};

}  // namespace wss::se
