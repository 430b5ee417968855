// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/lost.h"

#include <algorithm>
#include <iterator>

namespace wss::cache {

// The sub-block that `end` divides; none if `end` lies between two.
static SubBlocks split_at(uint32_t end) {
    const bool splits = end < kSubBlocksMax * kSubBlockBytes && end % kSubBlockBytes != 0;
    return splits ? SubBlocks{uint64_t{1} << (end >> kSubBlockShift)} : SubBlocks{};
}

void LostSubBlocks::add(const Key& key, SubBlocks sub_blocks, Nanoseconds since, const LossBounds& bounds) {
    if (sub_blocks.empty() || is_whole(key.volume)) return;
    auto [at, added] = lines_.try_emplace(key, Loss{{}, since, bounds});
    if (added) ++times_[{key.volume, since}];
    Count& count = counts_[key.volume];
    count.lines += added;
    count.sub_blocks += sub_blocks.without(at->second.sub_blocks).count();
    at->second.sub_blocks |= sub_blocks;
    // This may be too strict for some of the sub-blocks: those stay lost, and no wrong data is restored.
    LossBounds& both = at->second.bounds;
    both = {std::max(both.passed_over, bounds.passed_over), std::min(both.end, bounds.end)};
}

LostSubBlocks::Lines::iterator LostSubBlocks::erase(Lines::iterator line) {
    auto time = times_.find({line->first.volume, line->second.since});
    if (--time->second == 0) times_.erase(time);
    auto count = counts_.find(line->first.volume);
    count->second.sub_blocks -= line->second.sub_blocks.count();
    if (--count->second.lines == 0) counts_.erase(count);
    return lines_.erase(line);
}

void LostSubBlocks::erase(Lines::iterator first, Lines::iterator end) {
    while (first != end) first = erase(first);
}

void LostSubBlocks::add_whole(uint64_t volume) {
    whole_.insert(volume);
}

SubBlocks LostSubBlocks::of(uint64_t volume, uint64_t line) const noexcept {
    if (is_whole(volume)) return {UINT64_MAX};
    SubBlocks sub_blocks;
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line; ++at)
        sub_blocks |= at->second.sub_blocks;
    return sub_blocks;
}

Nanoseconds LostSubBlocks::since(uint64_t volume, uint64_t line, SubBlocks sub_blocks) const noexcept {
    Nanoseconds first = kNever;
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line; ++at)
        if (at->second.sub_blocks.overlaps(sub_blocks)) first = std::min(first, at->second.since);
    return first;
}

Nanoseconds LostSubBlocks::since(uint64_t volume) const noexcept {
    auto at = times_.lower_bound({volume, Nanoseconds{INT64_MIN}});
    return at != times_.end() && at->first.first == volume ? at->first.second : kNever;
}

bool LostSubBlocks::any_since(uint64_t volume, Nanoseconds after, Nanoseconds until) const noexcept {
    auto at = times_.upper_bound({volume, after});
    return at != times_.end() && at->first.first == volume && at->first.second <= until;
}

bool LostSubBlocks::any_of(uint64_t volume) const noexcept {
    return is_whole(volume) || counts_.contains(volume);
}

uint64_t LostSubBlocks::sub_blocks_of(uint64_t volume) const noexcept {
    auto count = counts_.find(volume);
    return count == counts_.end() ? 0 : count->second.sub_blocks;
}

SubBlocks LostSubBlocks::in_copy(const Key& key, SubBlocks dirty) const noexcept {
    SubBlocks sub_blocks;
    for (auto at = lines_.lower_bound({key.volume, key.line, 0}); at != lines_.end() && at->first <= key;
         ++at) {
        const bool has_it = at->first.generation == key.generation;
        if (has_it || key.generation > at->second.bounds.passed_over)
            sub_blocks |= at->second.sub_blocks & dirty;
    }
    return sub_blocks;
}

uint32_t LostSubBlocks::end_of(uint64_t volume, uint64_t line, SubBlocks sub_blocks) const noexcept {
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line; ++at)
        if ((at->second.sub_blocks & sub_blocks).overlaps(split_at(at->second.bounds.end)))
            return at->second.bounds.end;
    return kNoEnd;
}

bool LostSubBlocks::found(uint64_t volume, uint64_t line, SubBlocks sub_blocks) {
    bool any = false;
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line;) {
        any = any || at->second.sub_blocks.overlaps(sub_blocks);
        counts_.at(volume).sub_blocks -= (at->second.sub_blocks & sub_blocks).count();
        at->second.sub_blocks = at->second.sub_blocks.without(sub_blocks);
        at = at->second.sub_blocks.empty() ? erase(at) : std::next(at);
    }
    known_again_ += any;
    return any;
}

bool LostSubBlocks::cut(uint64_t volume, uint64_t line, uint32_t bytes) {
    const auto first =
        bytes == 0 ? lines_.lower_bound({volume, line, 0}) : lines_.upper_bound({volume, line, UINT64_MAX});
    const auto end = lines_.upper_bound({volume, UINT64_MAX, UINT64_MAX});
    bool any = first != end;
    erase(first, end);
    known_again_ += any;
    if (bytes == 0) return any;
    const uint32_t left = (bytes + kSubBlockBytes - 1) >> kSubBlockShift;
    if (left < kSubBlocksMax) any = found(volume, line, {UINT64_MAX << left}) || any;
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line; ++at) {
        if (!at->second.sub_blocks.overlaps(split_at(bytes)) || at->second.bounds.end <= bytes) continue;
        at->second.bounds.end = bytes;
        any = true;
    }
    return any;
}

bool LostSubBlocks::forget(uint64_t volume) {
    const bool any = any_of(volume);
    erase(lines_.lower_bound({volume, 0, 0}), lines_.upper_bound({volume, UINT64_MAX, UINT64_MAX}));
    whole_.erase(volume);
    known_again_ += any;
    return any;
}

}  // namespace wss::cache
