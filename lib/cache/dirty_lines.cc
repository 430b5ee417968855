// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/dirty_lines.h"

#include <algorithm>

namespace wss::cache {

bool DirtyLines::flushed(uint64_t mark) {
    Line* const oldest = waiting_.front();
    if (oldest != nullptr && oldest->dirty_sequence_ <= mark) return false;
    return destaging_.find_if([mark](Line& line) { return line.destage_sequence_ <= mark; }) == nullptr;
}

Nanoseconds DirtyLines::since() {
    Line* const oldest = waiting_.front();
    Nanoseconds since = oldest == nullptr ? kNever : oldest->dirty_since_;
    destaging_.for_each([&since](Line& line) { since = std::min(since, line.destage_since_); });
    return since;
}

void DirtyLines::join(Line& line) {
    const uint64_t sequence = line.dirty_sequence_;
    Line* const later =
        waiting_.find_if([sequence](Line& other) { return other.dirty_sequence_ > sequence; });
    later != nullptr ? waiting_.insert(*later, line) : waiting_.push_back(line);
}

}  // namespace wss::cache
