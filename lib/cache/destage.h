// SPDX-License-Identifier: Apache-2.0
// Destaging: when dirty lines are written to real storage, and which of them together.
//
//   age      a dirty line is destaged after `age_max`: this bounds what a crash of all its holders can lose
//   ratio    once more than `dirty_high_percent` of the cache is dirty, until no more than
//            `dirty_low_percent` is: this keeps room for writes
//   mark     a flush waits (Index::flush_mark), or the volume or an engine is being emptied
//   merging  neighbours of the oldest line that are dirty and idle are destaged with it, so that sequential
//            writes reach storage as one
//   failure  the data stays dirty. A line whose write fails is deferred (dirty_lines.h). So are lines near
//            one that storage has not answered for: storage may be silent for only that part of a volume. One
//            of the deferred lines is retried after each pause. The pause doubles up to `retry_max`, until
//            storage accepts such a line. Other lines do not wait for it. After `failures_max` failures in a
//            row the whole volume pauses
//
// The planner decides. target/cache reads the lines from their holders and writes them. Each volume of an
// Index has one planner, which belongs to the thread of the Index.
#pragma once

#include <algorithm>
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
constexpr uint32_t kDestageRunMax = 256;  // lines: 1 MiB at the smallest line size

class DestagePlanner {
  public:
    explicit DestagePlanner(const DestageOptions& options) : options_(options) {}

    // Makes every line with a dirty sequence up to `mark` due now. A mark below an earlier one has no effect.
    void want(uint64_t mark) { wanted_ = wanted_ > mark ? wanted_ : mark; }
    // The request of want() has been completed or given up.
    void want_no_more() { wanted_ = 0; }

    // Whether a line may be destaged now.
    enum class Look : uint8_t {
        kYes,
        kAskedFor,  // the caller is already waiting to enter the line; this does not delay other lines
        kSilent,    // storage has not answered for a line near it: the line is deferred
    };
    // The next run to destage: returns the number of adjacent lines, in ascending order, at the start of
    // `run`; 0 if none is due now. `look(line)` returns kYes for each of them. The caller must enter the
    // lines before the next call. While some lines are deferred, a run has one line.
    template <typename LookAt>
    size_t next(Index& index, uint32_t volume, Nanoseconds now, std::span<Line*> run, LookAt&& look);
    // True if the last next() returned a deferred line.
    bool retries() const { return retries_; }

    // Storage accepted a line. `again` means that the line had been deferred, or that unanswered() had been
    // called for it.
    void succeeded(bool again);
    // Storage did not accept a line. `expected` means that unanswered() was called for it, or that the line
    // lies beyond the end of storage.
    void failed(Nanoseconds now, bool expected = false);
    // Storage has not answered for a line for some time.
    void unanswered(Nanoseconds now);
    bool failing() const { return retry_.count != 0; }
    // True after a failed or unanswered write until storage accepts a line: one write at a time suffices as a
    // probe.
    bool suspect() const { return suspect_; }

  private:
    bool due(const Index& index, const Line& line, Nanoseconds now);
    bool above_ratio(const Index& index);
    bool pauses(Nanoseconds now);
    template <typename LookAt>
    size_t gather(Index& index, Line& oldest, std::span<Line*> run, LookAt&& look) const;
    void pause(Nanoseconds now);

    // One call of next() examines at most this many lines in the order of age, and at most this many deferred
    // ones. That takes less than 0.1 ms. Lines that do not delay others are not counted.
    static constexpr size_t kLooks = 256, kLooksDeferred = 32;

    const DestageOptions options_;
    uint64_t wanted_ = 0;
    bool draining_ = false;  // the dirty ratio is falling from the high to the low mark
    bool retries_ = false, suspect_ = false;
    bool starts_pause_ = false;  // a deferred line is being retried: its failure starts the next pause
    uint32_t failures_ = 0;      // consecutive failures
    Nanoseconds retry_;          // the current pause; 0: none
    Nanoseconds retry_at_;
};

template <typename LookAt>
size_t DestagePlanner::next(Index& index, uint32_t volume, Nanoseconds now, std::span<Line*> run,
                            LookAt&& look) {
    retries_ = false;
    if (run.empty() || pauses(now)) return 0;
    DirtyLines& dirty = index.dirty(volume);
    // A line that is dirty again while it is destaged must wait until the destaging ends. It does not delay
    // other lines either.
    const auto fits = [&look](const Line& line) {
        return line.state() == LineState::kDirty && look(line) != Look::kAskedFor;
    };
    Line* line = failing() && now < retry_at_ ? nullptr : dirty.first_deferred();
    const Line* const first = line;
    for (size_t looks = 0; line != nullptr; ++looks) {
        if (line->state() == LineState::kDirty && look(*line) == Look::kYes && due(index, *line, now)) {
            retries_ = starts_pause_ = true;
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
            return dirty.first_deferred() == nullptr ? gather(index, *line, run, look) : 1;
        }
        dirty.defer(*line);
    }
    return 0;
}

// Adds to `oldest` its neighbours on both sides, up to the first that is not dirty and idle, or that may not
// be destaged now: storage may not answer for a run that extends into a silent part of the volume.
template <typename LookAt>
size_t DestagePlanner::gather(Index& index, Line& oldest, std::span<Line*> run, LookAt&& look) const {
    size_t most = std::max<size_t>(options_.merge_bytes_max / index.geometry().line_bytes(), 1);
    most = std::min({most, run.size(), size_t{kDestageRunMax}});
    const auto joins = [&index, &look](LineKey key) {
        const Line* line = index.find(key);
        return line != nullptr && line->state() == LineState::kDirty && line->idle() &&
               look(*line) == Look::kYes;
    };
    LineKey first = oldest.key();
    size_t count = 1;
    while (count < most && first.line > 0 && joins({first.volume, first.line - 1})) {
        --first.line;
        ++count;
    }
    LineKey last = oldest.key();
    while (count < most && joins({last.volume, last.line + 1})) {
        ++last.line;
        ++count;
    }
    for (size_t i = 0; i < count; ++i) run[i] = index.find({first.volume, first.line + i});
    return count;
}

}  // namespace wss::cache
