// SPDX-License-Identifier: Apache-2.0
// VolumeControl: adds volumes to the cache, resizes and removes them, sets their policies, freezes them
// (SE3), and records whether they may have dirty lines.
//
// It owns only the list of volumes whose give-up is not on stable storage yet. It writes to each
// CachedVolume. It calls the owners in Uses. It is notified when a membership was saved and when recovery has
// ended.
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

namespace wss::cache {

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
    // When `shrink` is complete, no line beyond the new end is valid, neither in engines nor after a restart.
    void shrink(CachedVolume& volume, std::shared_ptr<volume::Shrink> shrink);
    // No further command begins. Waiting commands end with ENXIO, active ones end normally. The lines are
    // wiped. `open` is held until stable storage records that no data of the volume counts, and is not used
    // after it is released. The volume is freed, and its number may be reused, when no user is left in its
    // gate.
    void remove(CachedVolume& volume);
    // The volume's storage had another owner. When `reopening` has ended without error, no data of the volume
    // in engines is valid.
    void reopen(CachedVolume& volume, std::shared_ptr<volume::Reopening> reopening);
    // Gives up the volume's lost data and, if the volume is not open, all its data in engines. From now on
    // the contents of real storage count. One flush of the volume fails. `which`: its name or its WWID
    // ("naa.3…"). A name means the open volume of this name or, if there is none, the only volume that had
    // this name. `done` gets the WWID when this is recorded, or the reason why it is not yet recorded. The
    // target keeps trying.
    void give_up(const std::string& which, std::function<void(Result<uint64_t>)> done);

    // ---- Policies
    // Rejects write-back without a stable membership, which is needed to find dirty lines after a restart.
    Status check_stable(const PolicySettings& settings) const;
    void set_policy(const std::string& name, const PolicySettings& settings,
                    std::function<void(Status)> done);

    // ---- Freezing and flushing
    // SE3, for operations that the cache does not handle: when `done` is called, no command of the volume is
    // active, and real storage has the data of `range`, or of the whole volume if `range` is empty. With
    // kChanged nothing is cached in `range`. This holds until thaw(), which must follow even after an error.
    // Returns false if the volume is being removed; neither `done` nor thaw() follows then.
    [[nodiscard]] bool freeze(CachedVolume& volume, Stretch range, Frozen use,
                              std::function<void(int error)> done, Asker asker, const Cancelled* cancelled);
    void thaw(CachedVolume& volume) noexcept;
    // Destages the dirty lines of open volumes. The error names those that are left.
    void destage_all(std::function<void(Status)> done);
    bool any_dirty() const;
    // An operator's command: destages the data in engines, of one volume, or of all volumes if `name` is
    // empty. Fails if engines hold, or may hold, data that could not be destaged.
    void drain(const std::string& name, std::function<void(Status)> done);
    // The target stops: commands no longer wait for recovery or for engines.
    void end_waits();
    // Ends cancelled commands, flushes and freezes that wait with BUSY.
    void end_cancelled() noexcept;

    // Real storage on another node may have another owner now.
    void note_owners();
    void note_server(const CachedVolume& volume);
    // Records the volumes whose storage had another owner. Also called before the last save, because no tick
    // may follow.
    void note_lost_storage();
    void tick();

  private:
    void destage_range(CachedVolume& volume, Stretch range, std::function<void(int error)> done, Asker asker,
                       const Cancelled* cancelled);
    void destage(CachedVolume& volume, std::function<void(Status)> done);
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
    // Volumes whose give-up is not yet recorded: the WWID, by the name that the operator gave.
    std::map<std::string, uint64_t> giving_up_;
};

}  // namespace wss::cache
