// SPDX-License-Identifier: Apache-2.0
// DirtyLines: those of one volume, in the order in which they became dirty. The index keeps it; others ask.
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
    // Not being destaged; nullptr if there is none.
    Line* oldest() { return waiting_.front(); }
    // Since when the oldest dirty data is so, destaged now or not; kNever if there is none.
    Nanoseconds since();
    // Visits lines that are dirty and not being destaged, oldest first, until `visit(Line&)` returns false.
    template <typename Visit>
    void for_each(Visit&& visit) {
        waiting_.find_if([&visit](Line& line) { return !visit(line); });
    }

  private:
    friend class Index;
    void join(Line& line);  // at the place of its dirty_sequence()

    List<Line, DirtyOrder> waiting_;
    List<Line, DestageOrder> destaging_;  // few
    uint64_t count_ = 0;                  // in either or both
    uint64_t single_ = 0;
};

}  // namespace wss::cache
