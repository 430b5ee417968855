// SPDX-License-Identifier: Apache-2.0
// Destaging: when dirty lines are brought home to real storage, and which of them go together.
//
//   age      a dirty line is brought home after `age_max`: what a crash of every holder could cost
//   ratio    above `dirty_high_percent` of the cache dirty, until below `dirty_low_percent`: room for writes
//   mark     a flush waits (Index::flush_mark), or the volume or an engine is being emptied
//   merging  neighbours of the oldest line that are dirty and idle go with it, so that sequential writes
//            leave as one
//   failure  the data stay dirty. A line that storage did not take is deferred (dirty_lines.h). So is what
//            lies beside one that storage has not answered for: it may be silent for that part of a volume
//            alone. Of what is deferred one line is tried again after each pause, which doubles up to
//            `retry_max`, until storage takes one; the others go on. After `failures_max` failures in a row
//            the whole volume pauses
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
    uint32_t failures_max = 16;
};
constexpr uint32_t kDestageRunMax = 256;  // lines: 1 MiB of the smallest

class DestagePlanner {
  public:
    explicit DestagePlanner(const DestageOptions& options) : options_(options) {}

    // Everything that is dirty with a sequence up to `mark` is due now, until it is done. Marks add up.
    void want(uint64_t mark) { wanted_ = wanted_ > mark ? wanted_ : mark; }
    // What `want` asked for is done or was given up.
    void want_no_more() { wanted_ = 0; }

    // May a line be asked for now?
    enum class Look : uint8_t {
        kYes,
        kAskedFor,  // by the caller, already: it waits to enter the line, which does not hold up the others
        kSilent,    // storage has not answered for what lies beside it
    };
    // The next run that is due: adjacent lines in ascending order, the first of `run`; 0 if none is due now.
    // It passes over those for which `look(line)` does not return kYes. The caller enters what it is given
    // before it asks again. One line at a time while some are deferred.
    template <typename LookAt>
    size_t next(Index& index, uint32_t volume, Nanoseconds now, std::span<Line*> run, LookAt&& look);
    // next() has found a line that was deferred.
    bool retries() const { return retries_; }

    // Storage took a line; `again`: that was deferred, or that it had not answered for.
    void succeeded(bool again);
    // It did not; `expected`: unanswered() was called for it, or the line lies beyond the end of storage.
    void failed(Nanoseconds now, bool expected = false);
    // It has not answered for some time.
    void unanswered(Nanoseconds now);
    bool failing() const { return retry_.count != 0; }
    // The last that is known of storage is that it does not take a line: one at a time is enough to try.
    bool suspect() const { return suspect_; }

  private:
    bool due(const Index& index, const Line& line, Nanoseconds now);
    bool above_ratio(const Index& index);
    bool pauses(Nanoseconds now);
    size_t gather(Index& index, Line& oldest, std::span<Line*> run) const;
    void pause(Nanoseconds now);

    // Of one call, at lines that it does not find: below 0.1 ms.
    static constexpr size_t kLooks = 256, kLooksDeferred = 32;

    const DestageOptions options_;
    uint64_t wanted_ = 0;
    bool draining_ = false;  // between the high and the low mark, on the way down
    bool retries_ = false, suspect_ = false;
    bool asked_ = false;     // a line that was deferred, during a pause or at its end: how it ends is news
    uint32_t failures_ = 0;  // in a row
    Nanoseconds retry_;      // the current pause; 0: none
    Nanoseconds retry_at_;
};

template <typename LookAt>
size_t DestagePlanner::next(Index& index, uint32_t volume, Nanoseconds now, std::span<Line*> run,
                            LookAt&& look) {
    retries_ = false;
    if (run.empty() || pauses(now)) return 0;
    DirtyLines& dirty = index.dirty(volume);
    // A line that is dirty again while it is destaged waits for the end of that; it does not hold up the
    // others either.
    const auto fits = [&look](const Line& line) {
        return line.state() == LineState::kDirty && look(line) != Look::kAskedFor;
    };
    Line* line = failing() && now < retry_at_ ? nullptr : dirty.first_deferred();
    const Line* const first = line;
    for (size_t looks = 0; line != nullptr; ++looks) {
        if (line->state() == LineState::kDirty && look(*line) == Look::kYes && due(index, *line, now)) {
            retries_ = asked_ = true;
            retry_at_ = now + retry_;
            run[0] = line;
            return 1;
        }
        dirty.defer(*line);
        line = dirty.first_deferred();
        if (line == first || looks == kLooksDeferred) break;
    }
    for (size_t looks = 0; looks < kLooks; ++looks) {
        line = dirty.oldest(fits);
        if (line == nullptr || !due(index, *line, now)) return 0;
        if (look(*line) != Look::kSilent) {
            run[0] = line;
            return dirty.first_deferred() == nullptr ? gather(index, *line, run) : 1;
        }
        dirty.defer(*line);
    }
    return 0;
}

}  // namespace wss::cache
