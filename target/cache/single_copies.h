// SPDX-License-Identifier: Apache-2.0
// SingleCopies: dirty lines of which one copy may be left. Until they are in real storage the membership says
// so (Membership::degraded): the next start needs every engine.
//
// It owns the mark up to which lines are dirty so. It calls the members, the index and the volumes' planners.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include "lib/cache/index.h"
#include "target/cache/cached_volumes.h"
#include "target/cache/members.h"

namespace wss::se {

class SingleCopies {
  public:
    SingleCopies(cache::Index& index, Members& members, CachedVolumes& volumes)
        : index_(index), members_(members), volumes_(volumes) {}

    // Some of what is dirty now has one copy left: it is destaged first.
    void note() noexcept {
        mark();
        want_all();
    }
    // As note(), by recovery, which lets nothing be destaged yet: want_all() follows.
    void mark() noexcept { mark_ = index_.flush_mark(); }
    void want_all() noexcept {
        for (CachedVolume& volume : volumes_.open()) volume.planner->want(mark_);
    }
    // … and of a volume whose planner has forgotten it.
    void want(CachedVolume& volume) noexcept {
        if (members_.now().degraded) volume.planner->want(mark_);
    }
    bool all_home() noexcept;

  private:
    cache::Index& index_;
    Members& members_;
    CachedVolumes& volumes_;
    uint64_t mark_ = 0;
};

inline bool SingleCopies::all_home() noexcept {
    for (const auto& [wwid, number] : volumes_.absent())
        if (!index_.flushed(number, mark_)) return false;
    for (CachedVolume& volume : volumes_.open())
        if (!index_.flushed(volume.number, mark_)) return false;
    return true;
}

}  // namespace wss::se
