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

void DestagePlanner::succeeded(bool again) {
    failures_ = 0;
    suspect_ = false;
    if (!again) return;
    retry_ = {};
    starts_pause_ = false;
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
    if (failing() && now < retry_at_ && !starts_pause_) return;
    starts_pause_ = false;
    retry_ =
        failing() ? Nanoseconds{std::min(retry_.count * 2, options_.retry_max.count)} : options_.retry_first;
    retry_at_ = now + retry_;
}

}  // namespace wss::cache
