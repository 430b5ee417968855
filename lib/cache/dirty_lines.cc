// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/dirty_lines.h"

#include <algorithm>

namespace wss::cache {

bool DirtyLines::flushed(uint64_t mark) {
    Line* const oldest = waiting_.front();
    if (oldest != nullptr && oldest->dirty_sequence_ <= mark) return false;
    if (destaging_.find_if([mark](Line& line) { return line.destage_sequence_ <= mark; }) != nullptr)
        return false;
    if (deferred_.empty() || mark < deferred_first_) return true;
    // Lines from before the mark are nearly always at the front.
    return mark < deferred_last_ &&
           deferred_.find_if([mark](Line& line) { return line.dirty_sequence_ <= mark; }) == nullptr;
}

Nanoseconds DirtyLines::since() {
    Line* const oldest = waiting_.front();
    Nanoseconds since = oldest == nullptr ? kNever : oldest->dirty_since_;
    if (!deferred_.empty()) since = std::min(since, deferred_since_);
    destaging_.for_each([&since](Line& line) { since = std::min(since, line.destage_since_); });
    return since;
}

void DirtyLines::defer(Line& line) {
    static_cast<ListNode<DirtyOrder>&>(line).unlink();
    const bool first = deferred_.empty();
    deferred_.push_back(line);
    deferred_first_ = first ? line.dirty_sequence_ : std::min(deferred_first_, line.dirty_sequence_);
    deferred_last_ = first ? line.dirty_sequence_ : std::max(deferred_last_, line.dirty_sequence_);
    deferred_since_ = first ? line.dirty_since_ : std::min(deferred_since_, line.dirty_since_);
}

}  // namespace wss::cache
