// SPDX-License-Identifier: Apache-2.0
// Deletions: volumes that an operator's command deletes. The storage of such a volume stays, so the data that
// only engines have must be destaged first:
//
//   destage      commands continue
//   freeze       no command begins; active commands end
//   destage      the writes of these commands
//   answer       the volume stays frozen until the caller that removes it drops the hold
//
// The deletion is rejected, and the volume stays, in three cases: storage fails, storage does not complete
// destaging or an active command in time, or engines that are away have data of the volume. RAM volumes lose
// their contents in any case and have no cache (VolumeControl::add()).
//
// It owns the pending deletions. It calls the owners in Uses.
//
// Thread-safety: belongs to the cache's reactor; a hold may be dropped on any thread. Control plane:
// allocates.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include "target/cache/volume_control.h"

namespace wss::cache {

class Deletions {
  public:
    // What it calls.
    struct Uses {
        const Index& index;
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

    // Called before anything of the volume is deleted.
    void prepare(volume::Deletion deletion);
    // The deletion of a volume that was not open is complete; see AbsentVolumes::deleted().
    void over(uint64_t wwid, std::function<void()> recorded) {
        uses_.absent.deleted(wwid, std::move(recorded));
    }
    // Ends deletions that are overdue, and all deletions when the target stops.
    void tick();

  private:
    struct Pending;
    using PendingRef = std::shared_ptr<Pending>;
    static Status replaced(const Pending& pending);
    Status refusal(const CachedVolume& volume, const std::string& why) const;
    void destage(const PendingRef& pending);
    void destaged(const PendingRef& pending, int error);
    void time_is_over(const PendingRef& pending);
    void end(PendingRef pending, Status status);
    volume::Deletion::Hold hold_of(CachedVolume& volume);

    const Uses uses_;
    const uint32_t line_bytes_;
    reactor::Reactor& reactor_;
    std::list<PendingRef> pending_;
};

}  // namespace wss::cache
