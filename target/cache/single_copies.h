// SPDX-License-Identifier: Apache-2.0
// SingleCopies: dirty lines of which only one copy may be left. Until they are in real storage, or have two
// copies again, the membership records this (Membership::degraded), because the next start needs every
// engine.
//
// The index marks these lines (Index::mark_single()). Mirror makes second copies of them if real storage does
// not accept them. SingleCopies owns the mark up to which lines are destaged first. It calls the members, the
// index and the volumes' planners.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include "lib/cache/index.h"
#include "target/cache/cached_volumes.h"
#include "target/cache/members.h"

namespace wss::cache {

class SingleCopies {
  public:
    SingleCopies(Index& index, Members& members, CachedVolumes& volumes)
        : index_(index), members_(members), volumes_(volumes) {}

    // Some line that is dirty now has only one copy left. All lines that are dirty now are destaged first.
    void note() noexcept {
        mark();
        want_all();
    }
    // Like note(), but for recovery, during which nothing may be destaged yet. want_all() follows.
    void mark() noexcept { mark_ = index_.flush_mark(); }
    void want_all() noexcept {
        for (CachedVolume& volume : volumes_.open()) volume.planner->want(mark_);
    }
    // Requests destaging again for a volume whose planner has cleared its mark.
    void want(CachedVolume& volume) noexcept {
        if (members_.now().degraded) volume.planner->want(mark_);
    }
    bool none() const noexcept { return index_.counters().single_lines == 0; }

  private:
    Index& index_;
    Members& members_;
    CachedVolumes& volumes_;
    uint64_t mark_ = 0;
};

}  // namespace wss::cache
