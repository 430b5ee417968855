// SPDX-License-Identifier: Apache-2.0
#include "target/cache/lines.h"

#include <iterator>
#include <memory>
#include <utility>

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

// A line that is being dropped.
struct Lines::Drop : LineUser {
    Lines* owner = nullptr;
    cache::Line* line = nullptr;
    cache::LineOp op;
    std::function<void()> ended;
    std::list<Drop>::iterator place;  // in drops_
};

Lines::Lines(const cache::LineGeometry& geometry, uint32_t transient_lines, Turn& turn)
    : index_({.geometry = geometry, .transient_lines = transient_lines}), turn_(turn) {}

Lines::~Lines() = default;

void Lines::drop(uint32_t number, uint64_t offset, uint64_t length, std::function<void()> done) {
    auto left = std::make_shared<uint64_t>(1);
    auto ended = [left, done = std::move(done)] {
        if (--*left == 0) done();
    };
    for (const cache::LineKey& key : in_range(number, offset, length)) {
        cache::Line* line = index_.find(key);
        if (line == nullptr) continue;
        ++*left;
        Drop& drop = drops_.emplace_back();
        drop.place = std::prev(drops_.end());
        drop.on_entered = [](LineUser& user) noexcept {
            auto& entered = static_cast<Drop&>(user);
            entered.owner->entered(entered);
        };
        drop.owner = this;
        drop.line = line;
        drop.op.pieces = geometry().all();
        drop.op.access = cache::Access::kExclusive;
        drop.ended = ended;
        if (enter(*line, drop.op, drop)) entered(drop);
    }
    ended();
}

void Lines::entered(Drop& drop) noexcept {
    index_.invalidate(*drop.line, geometry().all());
    leave(drop.op);
    const auto ended = std::move(drop.ended);
    drops_.erase(drop.place);
    ended();
}

}  // namespace wss::se
