// SPDX-License-Identifier: Apache-2.0
// DirtyLines: the dirty lines of one volume, in the order in which they became dirty. The index maintains it;
// others read it and defer lines. A line that storage did not accept, or is not expected to accept, is
// deferred: it moves to a list of its own, in the order of deferral, and delays no other line.
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
    // The number of these lines that may have only one copy left (Index::mark_single()).
    uint64_t single() const { return single_; }
    // True if nothing that was written() before the mark (Index::flush_mark()) is still dirty.
    bool flushed(uint64_t mark);
    // The time at which the oldest dirty data became dirty, whether it is being destaged or not; kNever if
    // there is none. While lines are deferred, the result may be earlier than the true time.
    Nanoseconds since();
    // Visits the lines with dirty sub-blocks that are not being destaged, until `visit(Line&)` returns false:
    // the oldest first, the deferred ones last. A line that became dirty again while it is destaged is among
    // them.
    template <typename Visit>
    void for_each(Visit&& visit) {
        const auto stop = [&visit](Line& line) { return !visit(line); };
        if (waiting_.find_if(stop) == nullptr) deferred_.find_if(stop);
    }
    // The oldest line with dirty sub-blocks that are not being destaged, among those that are not deferred
    // and for which `accept(const Line&)` is true; nullptr if there is none.
    template <typename Accept>
    Line* oldest(Accept&& accept) {
        return waiting_.find_if(accept);
    }

    // Makes the line the last of the deferred ones, even if it is already deferred. It must have dirty
    // sub-blocks that are not being destaged, or be about to get some (Index::end_destage()).
    void defer(Line& line);
    // The line that was deferred first; nullptr if none is deferred.
    Line* first_deferred() { return deferred_.front(); }

  private:
    friend class Index;

    List<Line, DirtyOrder> waiting_, deferred_;
    List<Line, DestageOrder> destaging_;  // few
    uint64_t count_ = 0;                  // lines in at least one of the lists
    uint64_t single_ = 0;
    // Bounds over all lines that were deferred since the list was last empty.
    uint64_t deferred_first_ = 0, deferred_last_ = 0;  // dirty_sequence()
    Nanoseconds deferred_since_ = kNever;
};

}  // namespace wss::cache
