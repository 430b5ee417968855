// SPDX-License-Identifier: Apache-2.0
// AbsentVolumes: dirty lines of volumes that are not open. After a restart a volume's storage may not be
// there yet, its option may be missing, or it may be refused since it became smaller. What engines hold of it
// stays there, dirty, and is served and brought home when the volume is opened. Only a command destroys it:
// the volume is deleted, or given up.
//
// It has no state of its own but in the members and the table of volumes. It calls these, the losses, the
// index and the eraser.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates.
#pragma once

#include <functional>
#include <string>

#include "lib/cache/recovery.h"
#include "target/cache/cached_volumes.h"
#include "target/cache/eraser.h"
#include "target/cache/info.h"
#include "target/cache/losses.h"
#include "target/cache/members.h"

namespace wss::se {

class AbsentVolumes {
  public:
    AbsentVolumes(Members& members, CachedVolumes& volumes, Losses& losses, cache::Index& index,
                  Eraser& eraser)
        : members_(members), volumes_(volumes), losses_(losses), index_(index), eraser_(eraser) {}

    // Refuses a volume that has become smaller while engines may hold dirty lines beyond its present end, one
    // whose storage another owner had while engines held dirty lines, and one by the storage of another
    // volume that engines may hold dirty lines of.
    Status may_open(const volume::Volume& volume) const;
    // Recovery finds lines of those that may be dirty; afterwards those of which nothing was found are not
    // waited for any more.
    void keep(cache::Recovery& recovery);
    void settle();
    bool any_lines() const;
    // An error when engines hold, or are away with, what storage lacks of those of that name (of all, when it
    // is empty).
    Status all_home(const std::string& name) const;

    // Refuses the deletion of a volume that is not open while engines hold dirty lines of it, or may do so.
    // `recovering`: what they hold is not known yet.
    Status may_delete(const volume::Deletion& deletion, bool recovering) const;
    // Which of the volumes that engines may hold dirty lines of: its WWID.
    Result<uint64_t> to_give_up(const std::string& which) const;
    void give_up(uint64_t wwid);
    // A volume that is not open was deleted by a command: its lines are wiped. `recorded` follows when the
    // membership that says so is on stable storage.
    void deleted(uint64_t wwid, std::function<void()> recorded);
    void list(CacheInfo& info) const;

  private:
    bool had_another_owner(const volume::Volume& volume) const;
    void drop(uint64_t wwid);

    Members& members_;
    CachedVolumes& volumes_;
    Losses& losses_;
    cache::Index& index_;
    Eraser& eraser_;
};

}  // namespace wss::se
