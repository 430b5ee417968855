// SPDX-License-Identifier: Apache-2.0
// CachedVolumes: the number of each volume in the index.
//
//   open     the cache serves it. Its number is free again when its gate is empty (gone(), free_gone())
//   absent   it is not open. Engines hold dirty lines of it, which keep its number until the volume is opened
//   dropped  its data is no longer valid. Its number is free again when its lines were found and wiped
//
// It owns the CachedVolumes. It calls the index only.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "lib/cache/index.h"
#include "target/cache/cached_volume.h"
#include "target/cache/turn.h"

namespace wss::cache {

class CachedVolumes {
  public:
    CachedVolumes(Index& index, Turn& turn) : index_(index), turn_(turn) {}

    // ---- Open volumes
    // Volumes that are not being removed.
    auto open() const noexcept {
        return volumes_ | std::views::filter([](const auto& one) { return one && !one->removed(); }) |
               std::views::transform([](const auto& one) -> CachedVolume& { return *one; });
    }
    // Returns nullptr if no volume has this number. The volume may be one that is being removed.
    CachedVolume* at(uint32_t number) const noexcept { return volumes_[number].get(); }
    CachedVolume* find(const std::string& name) const;
    CachedVolume* find(uint64_t wwid) const;
    // Adds a volume. If it was absent, it gets the number of its lines.
    CachedVolume& add(uint64_t wwid);
    // No user of the volume is left. free_gone() frees it later, because the last user's call may still
    // access it.
    void gone(CachedVolume& volume) noexcept;
    void free_gone() {
        if (some_gone_) free_all_gone();
    }

    // ---- Absent ones
    // WWID → number.
    const std::map<uint64_t, uint32_t>& absent() const noexcept { return absent_; }
    uint32_t keep_absent(uint64_t wwid);
    // Drops the data of an absent volume and returns its number, or nullopt if it was not absent. The number
    // stays taken until lines_found() and free_dropped().
    std::optional<uint32_t> drop(uint64_t wwid);
    void lines_found(uint32_t number) noexcept;
    void free_dropped() noexcept {
        if (!dropped_.empty()) free_wiped();
    }

    // Empty if the volume is being removed or was dropped.
    std::optional<uint64_t> wwid_of(uint32_t number) const;
    // True while headers of an older volume with this WWID may still claim dirty data. A restart would
    // mistake them for lines of the new volume.
    bool being_wiped(uint64_t wwid) const;

  private:
    struct Dropped {
        uint32_t number = 0;
        uint64_t wwid = 0;
        bool lines_found = false;
    };
    void free_all_gone();
    void free_wiped() noexcept;
    bool is_taken(uint32_t number) const;
    uint32_t free_number();

    Index& index_;
    Turn& turn_;
    std::vector<std::unique_ptr<CachedVolume>> volumes_;  // by number; nullptr: free
    bool some_gone_ = false;
    std::map<uint64_t, uint32_t> absent_;
    std::vector<Dropped> dropped_;
};

}  // namespace wss::cache
