// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/destage.h"

#include <algorithm>

namespace wss::cache {

bool DestagePlanner::above_ratio(const Index& index) {
    uint64_t percent = index.counters().dirty_lines * 100;
    uint64_t capacity = std::max<uint64_t>(index.capacity_lines(), 1);
    uint64_t limit = draining_ ? options_.dirty_low_percent : options_.dirty_high_percent;
    draining_ = percent > limit * capacity;
    return draining_;
}

bool DestagePlanner::due(const Index& index, const Line& line, Nanoseconds now) {
    // A line that has lost its second copy should not wait: one more failure loses it. The index cannot
    // distinguish it from a line of an unsafe volume, which has one copy by configuration. target/cache calls
    // want() for it.
    return line.dirty_sequence() <= wanted_ || now - line.dirty_since() >= options_.age_max ||
           above_ratio(index);
}

// Adds to `oldest` its neighbours on both sides, up to the first that is not dirty and idle.
size_t DestagePlanner::gather(Index& index, Line& oldest, std::span<Line*> run) const {
    size_t most = std::max<size_t>(options_.merge_bytes_max / index.geometry().line_bytes(), 1);
    most = std::min({most, run.size(), size_t{kDestageRunMax}});
    auto joins = [&index](LineKey key) -> Line* {
        Line* line = index.find(key);
        return line != nullptr && line->state() == LineState::kDirty && line->idle() ? line : nullptr;
    };
    LineKey first = oldest.key();
    size_t count = 1;
    while (count < most && first.line > 0 && joins({first.volume, first.line - 1}) != nullptr) {
        --first.line;
        ++count;
    }
    LineKey last = oldest.key();
    while (count < most && joins({last.volume, last.line + 1}) != nullptr) {
        ++last.line;
        ++count;
    }
    for (size_t i = 0; i < count; ++i) run[i] = index.find({first.volume, first.line + i});
    return count;
}

void DestagePlanner::succeeded(bool again) {
    failures_ = 0;
    suspect_ = false;
    if (!again) return;
    retry_ = {};
    asked_ = false;
}

void DestagePlanner::failed(Nanoseconds now, bool expected) {
    if (!expected) ++failures_;
    pause(now);
}

void DestagePlanner::unanswered(Nanoseconds now) {
    pause(now);
}

bool DestagePlanner::pauses(Nanoseconds now) {
    if (failures_ < options_.failures_max) return false;
    if (now < retry_at_) return true;
    failures_ = 0;
    return false;
}

// Other failures during a pause belong to writes that began before it and do not extend it.
void DestagePlanner::pause(Nanoseconds now) {
    suspect_ = true;
    if (failing() && now < retry_at_ && !asked_) return;
    asked_ = false;
    retry_ =
        failing() ? Nanoseconds{std::min(retry_.count * 2, options_.retry_max.count)} : options_.retry_first;
    retry_at_ = now + retry_;
}

}  // namespace wss::cache
