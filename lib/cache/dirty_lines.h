// SPDX-License-Identifier: Apache-2.0
// DirtyLines: those of one volume, in the order in which they became dirty. The index keeps it; others ask.
// Lines that storage did not take, or is not expected to take, are deferred: they are in a list of their own,
// in the order of deferral, and hold up none of the others.
//
// Thread-safety: as the Index that it belongs to.
#pragma once

#include <cstdint>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/cache/line.h"

namespace wss::cache {

class DirtyLines {
  public:
    uint64_t count() const { return count_; }
    // Of these, those of which one copy is left, or may be (Index::mark_single()).
    uint64_t single() const { return single_; }
    // Whether all that was written() before the mark (Index::flush_mark()) is not dirty any more.
    bool flushed(uint64_t mark);
    // Since when the oldest dirty data is so, destaged now or not; kNever if there is none. While lines are
    // deferred it may be a time before that.
    Nanoseconds since();
    // Visits lines that are dirty and not being destaged until `visit(Line&)` returns false: oldest first,
    // then those that are deferred.
    template <typename Visit>
    void for_each(Visit&& visit) {
        const auto stop = [&visit](Line& line) { return !visit(line); };
        if (waiting_.find_if(stop) == nullptr) deferred_.find_if(stop);
    }
    // The oldest that is neither being destaged nor deferred and that `accept(const Line&)` accepts; nullptr
    // if there is none.
    template <typename Accept>
    Line* oldest(Accept&& accept) {
        return waiting_.find_if(accept);
    }

    // Puts a line that is dirty and not being destaged behind all deferred ones, also if it is one of them.
    void defer(Line& line);
    // The one that was deferred first; nullptr if there is none.
    Line* first_deferred() { return deferred_.front(); }

  private:
    friend class Index;

    List<Line, DirtyOrder> waiting_, deferred_;
    List<Line, DestageOrder> destaging_;  // few
    uint64_t count_ = 0;                  // in either or both
    uint64_t single_ = 0;
    // Bounds of all that were deferred since none was.
    uint64_t deferred_first_ = 0, deferred_last_ = 0;  // dirty_sequence()
    Nanoseconds deferred_since_ = kNever;
};

}  // namespace wss::cache
