// SPDX-License-Identifier: Apache-2.0
#include "target/cache/lines.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

namespace wss::cache {

// Limits per turn. Each takes less than 0.3 ms.
constexpr uint64_t kPlacesPerTurn = 4096;
constexpr uint64_t kKeysPerTurn = 2048;
constexpr size_t kBegunPerTurn = 64;
// Maximum number of lines whose visit has begun but not ended.
constexpr size_t kUnderWayMax = 128;

// A walk. It walks the keys of its range or the places of the index, whichever are fewer.
struct Lines::Walk {
    uint32_t number = 0;
    uint64_t first = 0, last = 0;  // lines
    bool by_key = false;
    uint64_t next = 0;  // line or place
    bool looked_at_all = false;
    size_t under_way = 0;
    std::deque<LineKey> found;  // lines that were found, but not yet visited
    Visit visit;
    std::function<void()> done;
};

// A line that is being dropped.
struct Lines::Drop : LineUser {
    Lines* owner = nullptr;
    Line* line = nullptr;
    LineOp op;
    std::function<void()> ended;
    std::list<Drop>::iterator place;  // in drops_
};

Lines::Lines(const LineGeometry& geometry, uint32_t transient_lines, Turn& turn)
    : index_({.geometry = geometry, .transient_lines = transient_lines}), turn_(turn) {}

Lines::~Lines() = default;

void Lines::walk(uint32_t number, uint64_t offset, uint64_t length, Visit visit, std::function<void()> done) {
    const uint64_t end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;
    if (offset >= end) return done();
    auto walk = std::make_shared<Walk>();
    walk->number = number;
    walk->first = geometry().line_of(offset);
    walk->last = geometry().line_of(end - 1);
    walk->by_key = walk->last - walk->first < index_.places();
    walk->next = walk->by_key ? walk->first : 0;
    walk->visit = std::move(visit);
    walk->done = std::move(done);
    walks_.push_back(walk);
    if (walks_.size() == 1)
        step(walk);
    else
        turn_.want();
}

// Searches a part of the range. Returns true when the whole range was searched.
bool Lines::look(Walk& walk) {
    if (walk.by_key) {
        const uint64_t left = walk.last - walk.next + 1, count = std::min(left, kKeysPerTurn);
        for (uint64_t line = walk.next; line < walk.next + count; ++line)
            if (index_.find({walk.number, line}) != nullptr) walk.found.push_back({walk.number, line});
        walk.next += count;
        return count == left;
    }
    index_.for_each(walk.next, kPlacesPerTurn, [&walk](Line& line) {
        const LineKey key = line.key();
        if (key.volume == walk.number && key.line >= walk.first && key.line <= walk.last)
            walk.found.push_back(key);
    });
    walk.next += kPlacesPerTurn;
    return walk.next >= index_.places();
}

// Returns true if it searched for lines or began to visit some. The walk may have ended in either case.
bool Lines::step(const std::shared_ptr<Walk>& walk) {
    const bool looks = walk->found.empty() && !walk->looked_at_all;
    if (looks) walk->looked_at_all = look(*walk);
    size_t begun = 0;
    for (; begun < kBegunPerTurn && walk->under_way < kUnderWayMax; ++begun) {
        if (walk->found.empty()) break;
        Line* const line = index_.find(walk->found.front());
        walk->found.pop_front();
        if (line == nullptr) continue;  // evicted meanwhile
        ++walk->under_way;
        walk->visit(*line, [this, walk] {
            --walk->under_way;
            turn_.want();
        });
    }
    const bool worked = looks || begun > 0;
    const bool more = walk->found.empty() ? !walk->looked_at_all : walk->under_way < kUnderWayMax;
    if (more) turn_.want();
    // Otherwise the walk continues when a visit ends.
    if (more || !walk->found.empty() || walk->under_way > 0) return worked;
    walks_.remove(walk);
    walk->done();
    return worked;
}

// Runs only the next walk that has something to do. So many walks take no more time of a turn than one.
void Lines::go_on() {
    for (size_t left = walks_.size(); left > 0; --left) {
        const std::shared_ptr<Walk> walk = walks_.front();
        walks_.splice(walks_.end(), walks_, walks_.begin());
        if (!step(walk)) continue;
        if (!walks_.empty()) turn_.want();
        return;
    }
}

void Lines::forget_walks() noexcept {
    for (const auto& walk : walks_) {
        walk->visit = nullptr;
        walk->done = nullptr;
    }
    walks_.clear();
}

void Lines::drop(uint32_t number, uint64_t offset, uint64_t length, std::function<void()> done) {
    walk(
        number, offset, length, [this](Line& line, Ended ended) { begin_drop(line, std::move(ended)); },
        std::move(done));
}

void Lines::begin_drop(Line& line, Ended ended) {
    Drop& drop = drops_.emplace_back();
    drop.place = std::prev(drops_.end());
    drop.on_entered = [](LineUser& user) noexcept {
        auto& job = static_cast<Drop&>(user);
        job.owner->entered(job);
    };
    drop.owner = this;
    drop.line = &line;
    drop.op.sub_blocks = geometry().all();
    drop.op.access = Access::kExclusive;
    drop.ended = std::move(ended);
    if (enter(line, drop.op, drop)) entered(drop);
}

void Lines::entered(Drop& drop) noexcept {
    index_.invalidate(*drop.line, geometry().all());
    leave(drop.op);
    const auto ended = std::move(drop.ended);
    drops_.erase(drop.place);
    ended();
}

}  // namespace wss::cache
