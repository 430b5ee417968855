// SPDX-License-Identifier: Apache-2.0
// VolumeControl: the life of volumes in the cache (they are added, resized and removed), their policies,
// freezing (SE3), and whether they may have dirty lines.
//
// It owns no state but what it writes to each CachedVolume. It calls the owners below it (see Uses). Of a
// saved membership and of the end of recovery it is notified.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "target/cache/datapath.h"
#include "target/cache/destager.h"
#include "target/cache/options.h"

namespace wss::se {

class VolumeControl final : public MembersObserver, public RecoveryObserver {
  public:
    struct Uses {
        Lines& lines;
        EngineSet& engines;
        StorageNodes& nodes;
        Eraser& eraser;
        Members& members;
        CachedVolumes& volumes;
        Losses& losses;
        AbsentVolumes& absent;
        SingleCopies& single;
        RecoveryRun& recovery;
        Destager& destager;
        Datapath& datapath;
        Life& life;
    };
    VolumeControl(const Uses& uses, const CacheOptions& options, reactor::Reactor& reactor)
        : uses_(uses), options_(options), reactor_(reactor) {}

    // ---- Life
    CachedVolume* add(volume::OpenVolume& open);
    void grew(CachedVolume& volume);
    // No line beyond the new end counts any more, in engines and after a restart, when `shrink` is done.
    void shrink(CachedVolume& volume, std::shared_ptr<volume::Shrink> shrink);
    // No command begins any more: what waits ends with ENXIO, what is under way ends as it does. The lines
    // are wiped. `open` has a user until it is on stable storage that nothing of the volume counts, and is
    // not used any more when its users are gone. The volume is freed, and its number used again, when nobody
    // has a place in its gate.
    void remove(CachedVolume& volume);
    // Nothing that engines hold of it counts any more when `reopening` ended well: its storage was another's.
    void reopen(CachedVolume& volume, std::shared_ptr<volume::Reopening> reopening);
    // Gives up what is lost of the volume, and if it is not open, what engines hold of it: what real storage
    // has counts from now on. One flush of it fails. `which`: its name or its WWID ("naa.3…"); a name means
    // the volume that is open, or else the only one that had it. `done`, with the WWID, when that is
    // recorded, or with the reason why it is not yet: the target goes on trying.
    void give_up(const std::string& which, std::function<void(Result<uint64_t>)> done);

    // ---- Policies
    // Dirty lines are found after a restart only by what the membership remembers of them.
    Status check_stable(const cache::PolicySettings& settings) const;
    void set_policy(const std::string& name, const cache::PolicySettings& settings,
                    std::function<void(Status)> done);

    // ---- Freezing and flushing
    // SE3, for what the cache does not understand: nothing of the volume is under way or cached in
    // [offset, offset + length) when `done` is called, and stays so until thaw(), which follows also an
    // error. False: the volume is being removed; neither `done` nor thaw().
    [[nodiscard]] bool freeze(CachedVolume& volume, uint64_t offset, uint64_t length,
                              std::function<void(int error)> done, Asker asker);
    void thaw(CachedVolume& volume) noexcept;
    // Brings what is dirty of open volumes home; the error names what is left.
    void bring_all_home(std::function<void(Status)> done);
    // By the operator's word: what engines hold (of one volume, or of all when `name` is empty) comes home.
    // An error when they hold, or may hold, more of it than could.
    void drain(const std::string& name, std::function<void(Status)> done);
    // The target ends: what waits for recovery or for engines does not wait any more.
    void end_waits();

    // Real storage elsewhere may have another owner now.
    void note_owners();
    // Which storage another owner has had. Also before the last save: the tick may not come any more.
    void note_lost_storage();
    void tick();

  private:
    void bring_range_home(CachedVolume& volume, cache::Stretch range, std::function<void(int error)> done,
                          Asker asker);
    void bring_home(CachedVolume& volume, std::function<void(Status)> done);
    void membership_saved() override;
    void recovery_over() override;
    void refuse_waiting(CachedVolume& volume) noexcept;
    void cut_lines(CachedVolume& volume, const std::shared_ptr<volume::Shrink>& shrink);
    void lines_cut(CachedVolume& volume, const std::shared_ptr<volume::Shrink>& shrink);
    std::string unsaved_data(const CachedVolume& volume) const;
    void drop_contents(CachedVolume& volume, const std::shared_ptr<volume::Reopening>& reopening);
    void record_dropping(CachedVolume& volume, const std::shared_ptr<volume::Reopening>& reopening);
    void contents_dropped(CachedVolume& volume, const std::shared_ptr<volume::Reopening>& reopening);
    void note_dirty(CachedVolume& volume, bool may_be_dirty);
    void note_lost_storage(const CachedVolume& volume);
    bool may_write_back(const CachedVolume& volume) const;
    void begin_write_back();
    void note_clean_volumes();
    void check_single_copies();
    Status recovering() const;
    void record_given_up(const std::string& which, uint64_t wwid, std::function<void(Result<uint64_t>)> done);

    const Uses uses_;
    const CacheOptions& options_;
    reactor::Reactor& reactor_;
    // By the operator's word for them: WWIDs of which it is not recorded yet that their lines are given up.
    std::map<std::string, uint64_t> giving_up_;
};

}  // namespace wss::se
