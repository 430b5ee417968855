// SPDX-License-Identifier: Apache-2.0
// Destaging: when dirty lines are brought home to real storage, and which of them go together.
//
//   age      a dirty line is brought home after `age_max`: what a crash of every holder could cost
//   ratio    above `dirty_high_percent` of the cache dirty, until below `dirty_low_percent`: room for writes
//   mark     a flush waits (Index::flush_mark), or the volume or an engine is being emptied
//   merging  neighbours of the oldest line that are dirty and idle go with it, so that sequential writes
//            leave as one
//   failure  storage that failed is left alone for a while, which doubles up to `retry_max`; the data stay
//            dirty
//
// The planner decides; target/cache reads the lines from their holders and writes them. One planner for each
// volume of an Index; it belongs to the thread of the Index.
#pragma once

#include <cstdint>
#include <span>

#include "lib/base/clock.h"
#include "lib/cache/index.h"

namespace wss::cache {

struct DestageOptions {
    Nanoseconds age_max = from_s(5);
    uint32_t dirty_high_percent = 40;
    uint32_t dirty_low_percent = 25;
    uint32_t merge_bytes_max = 1024 * 1024;
    Nanoseconds retry_first = from_ms(100);
    Nanoseconds retry_max = from_s(10);
};
constexpr uint32_t kDestageRunMax = 256;  // lines: 1 MiB of the smallest

class DestagePlanner {
  public:
    explicit DestagePlanner(const DestageOptions& options) : options_(options) {}

    // Everything that is dirty with a sequence up to `mark` is due now, until it is done. Marks add up.
    void want(uint64_t mark) { wanted_ = wanted_ > mark ? wanted_ : mark; }
    // What `want` asked for is done or was given up.
    void want_no_more() { wanted_ = 0; }

    // The next run that is due: adjacent lines in ascending order, the first of `run`; 0 if none is due now.
    // Not those that `asked_for(line)` says the caller has asked for already: one that waits to enter its
    // line has not begun, and does not hold up the others. The caller enters what it is given before it asks
    // again.
    template <typename AskedFor>
    size_t next(Index& index, uint32_t volume, Nanoseconds now, std::span<Line*> run, AskedFor&& asked_for);

    void succeeded() { retry_ = {}; }
    void failed(Nanoseconds now);
    bool failing() const { return retry_.count != 0; }

  private:
    bool due(Index& index, const Line& oldest, Nanoseconds now);
    bool above_ratio(const Index& index);
    size_t gather(Index& index, Line& oldest, std::span<Line*> run) const;

    size_t run_of(Index& index, Line& oldest, Nanoseconds now, std::span<Line*> run);

    const DestageOptions options_;
    uint64_t wanted_ = 0;
    bool draining_ = false;  // between the high and the low mark, on the way down
    Nanoseconds retry_;      // the current pause; 0: none
    Nanoseconds retry_at_;
};

template <typename AskedFor>
size_t DestagePlanner::next(Index& index, uint32_t volume, Nanoseconds now, std::span<Line*> run,
                            AskedFor&& asked_for) {
    // A line that is dirty again while it is destaged waits for the end of that; it does not hold up the
    // others either.
    Line* oldest = nullptr;
    index.dirty(volume).for_each([&](Line& line) {
        if (line.state() == LineState::kDirty && !asked_for(line)) oldest = &line;
        return oldest == nullptr;
    });
    return oldest == nullptr ? 0 : run_of(index, *oldest, now, run);
}

}  // namespace wss::cache
