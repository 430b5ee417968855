// SPDX-License-Identifier: Apache-2.0
#include "target/cache/lines.h"

namespace wss::se {

// Walks the lines of the range or those of the index, whichever are fewer.
std::vector<cache::LineKey> Lines::in_range(uint32_t number, uint64_t offset, uint64_t length) {
    std::vector<cache::LineKey> keys;
    const uint64_t end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;
    if (offset >= end) return keys;
    const uint64_t first = geometry().line_of(offset), last = geometry().line_of(end - 1);
    if (last - first <= index_.counters().lines) {
        for (uint64_t line = first; line <= last; ++line)
            if (index_.find({number, line}) != nullptr) keys.push_back({number, line});
        return keys;
    }
    index_.for_each([&](cache::Line& line) {
        const cache::LineKey key = line.key();
        if (key.volume == number && key.line >= first && key.line <= last) keys.push_back(key);
    });
    return keys;
}

// Nothing is under way: the volume is frozen, and nothing of it is dirty there.
void Lines::drop(uint32_t number, uint64_t offset, uint64_t length) {
    for (const cache::LineKey& key : in_range(number, offset, length)) {
        cache::Line* line = index_.find(key);
        if (line == nullptr) continue;
        cache::LineOp op;
        op.pieces = geometry().all();
        op.access = cache::Access::kExclusive;
        if (index_.enter(*line, op)) index_.invalidate(*line, geometry().all());
        leave(op);
    }
}

}  // namespace wss::se
