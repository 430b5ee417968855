// SPDX-License-Identifier: Apache-2.0
// AbsentVolumes: dirty lines of volumes that are not open. After a restart a volume's storage may not be
// available yet, its option may be missing, or the volume may be rejected because its storage became smaller.
// Its dirty lines stay in the engines, and are served and destaged when the volume is opened. Only an
// operator's command to delete or give up the volume destroys them.
//
// Its state is in the members and the table of volumes. AbsentVolumes calls these two, the losses, the index
// and the eraser.
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

namespace wss::cache {

class AbsentVolumes {
  public:
    AbsentVolumes(Members& members, CachedVolumes& volumes, Losses& losses, Index& index, Eraser& eraser)
        : members_(members), volumes_(volumes), losses_(losses), index_(index), eraser_(eraser) {}

    // Rejects a volume for which engines may hold dirty lines if it has become smaller, if its storage has
    // had another owner, or if it has moved between storage of the target and a storage process. Also rejects
    // a volume on the storage of another volume for which engines may hold dirty lines.
    Status may_open(const volume::Volume& volume) const;
    // Makes recovery also find lines of the absent volumes that may be dirty.
    void keep(Recovery& recovery);
    // Call it after recovery. Keeps the lines that recovery has found. A volume is no longer recorded as
    // dirty if recovery found no dirty lines of it and none are lost.
    void settle();
    bool any_lines() const;
    // Fails if engines, present or away, hold data that storage lacks. It considers absent volumes with that
    // name, or all of them if the name is empty.
    Status all_home(const std::string& name) const;

    // Rejects the deletion of a volume that is not open while engines hold, or may hold, dirty lines of it.
    // `recovering`: the contents of the engines are not yet known.
    Status may_delete(const volume::Deletion& deletion, bool recovering) const;
    // The WWID of the volume named by `which`, among those for which engines may hold dirty lines.
    Result<uint64_t> to_give_up(const std::string& which) const;
    void give_up(uint64_t wwid);
    // Wipes the lines of a volume that a command has deleted and that is not open. `recorded` is called when
    // the membership without the volume is on stable storage.
    void deleted(uint64_t wwid, std::function<void()> recorded);
    void list(CacheInfo& info) const;

  private:
    bool had_another_owner(const volume::Volume& volume) const;
    Status may_move(const volume::Volume& volume) const;
    void drop(uint64_t wwid);

    Members& members_;
    CachedVolumes& volumes_;
    Losses& losses_;
    Index& index_;
    Eraser& eraser_;
};

}  // namespace wss::cache
