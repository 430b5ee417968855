// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/lost.h"

#include <algorithm>
#include <iterator>

namespace wss::cache {

// The sub-block that `end` divides; none if `end` lies between two.
static Pieces split_at(uint32_t end) {
    const bool splits = end < kPiecesMax * kPieceBytes && end % kPieceBytes != 0;
    return splits ? Pieces{uint64_t{1} << (end >> kPieceShift)} : Pieces{};
}

void LostPieces::add(const Key& key, Pieces pieces, Nanoseconds since, const LossBounds& bounds) {
    if (pieces.empty() || is_whole(key.volume)) return;
    auto [at, added] = lines_.try_emplace(key, Loss{{}, since, bounds});
    if (added) ++times_[{key.volume, since}];
    Count& count = counts_[key.volume];
    count.lines += added;
    count.pieces += pieces.without(at->second.pieces).count();
    at->second.pieces |= pieces;
    // Too strict for some of the sub-blocks, perhaps: those stay lost, and nothing wrong is restored.
    LossBounds& both = at->second.bounds;
    both = {std::max(both.passed_over, bounds.passed_over), std::min(both.end, bounds.end)};
}

LostPieces::Lines::iterator LostPieces::erase(Lines::iterator line) {
    auto time = times_.find({line->first.volume, line->second.since});
    if (--time->second == 0) times_.erase(time);
    auto count = counts_.find(line->first.volume);
    count->second.pieces -= line->second.pieces.count();
    if (--count->second.lines == 0) counts_.erase(count);
    return lines_.erase(line);
}

void LostPieces::erase(Lines::iterator first, Lines::iterator end) {
    while (first != end) first = erase(first);
}

void LostPieces::add_whole(uint64_t volume) {
    whole_.insert(volume);
}

Pieces LostPieces::of(uint64_t volume, uint64_t line) const noexcept {
    if (is_whole(volume)) return {UINT64_MAX};
    Pieces pieces;
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line; ++at)
        pieces |= at->second.pieces;
    return pieces;
}

Nanoseconds LostPieces::since(uint64_t volume, uint64_t line, Pieces pieces) const noexcept {
    Nanoseconds first = kNever;
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line; ++at)
        if (at->second.pieces.overlaps(pieces)) first = std::min(first, at->second.since);
    return first;
}

Nanoseconds LostPieces::since(uint64_t volume) const noexcept {
    auto at = times_.lower_bound({volume, Nanoseconds{INT64_MIN}});
    return at != times_.end() && at->first.first == volume ? at->first.second : kNever;
}

bool LostPieces::any_since(uint64_t volume, Nanoseconds after, Nanoseconds until) const noexcept {
    auto at = times_.upper_bound({volume, after});
    return at != times_.end() && at->first.first == volume && at->first.second <= until;
}

bool LostPieces::any_of(uint64_t volume) const noexcept {
    return is_whole(volume) || counts_.contains(volume);
}

uint64_t LostPieces::pieces_of(uint64_t volume) const noexcept {
    auto count = counts_.find(volume);
    return count == counts_.end() ? 0 : count->second.pieces;
}

Pieces LostPieces::in_copy(const Key& key, Pieces dirty) const noexcept {
    Pieces pieces;
    for (auto at = lines_.lower_bound({key.volume, key.line, 0}); at != lines_.end() && at->first <= key;
         ++at) {
        const bool has_it = at->first.generation == key.generation;
        if (has_it || key.generation > at->second.bounds.passed_over) pieces |= at->second.pieces & dirty;
    }
    return pieces;
}

uint32_t LostPieces::end_of(uint64_t volume, uint64_t line, Pieces pieces) const noexcept {
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line; ++at)
        if ((at->second.pieces & pieces).overlaps(split_at(at->second.bounds.end)))
            return at->second.bounds.end;
    return kNoEnd;
}

bool LostPieces::found(uint64_t volume, uint64_t line, Pieces pieces) {
    bool any = false;
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line;) {
        any = any || at->second.pieces.overlaps(pieces);
        counts_.at(volume).pieces -= (at->second.pieces & pieces).count();
        at->second.pieces = at->second.pieces.without(pieces);
        at = at->second.pieces.empty() ? erase(at) : std::next(at);
    }
    known_again_ += any;
    return any;
}

bool LostPieces::cut(uint64_t volume, uint64_t line, uint32_t bytes) {
    const auto first =
        bytes == 0 ? lines_.lower_bound({volume, line, 0}) : lines_.upper_bound({volume, line, UINT64_MAX});
    const auto end = lines_.upper_bound({volume, UINT64_MAX, UINT64_MAX});
    bool any = first != end;
    erase(first, end);
    known_again_ += any;
    if (bytes == 0) return any;
    const uint32_t left = (bytes + kPieceBytes - 1) >> kPieceShift;
    if (left < kPiecesMax) any = found(volume, line, {UINT64_MAX << left}) || any;
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line; ++at) {
        if (!at->second.pieces.overlaps(split_at(bytes)) || at->second.bounds.end <= bytes) continue;
        at->second.bounds.end = bytes;
        any = true;
    }
    return any;
}

bool LostPieces::forget(uint64_t volume) {
    const bool any = any_of(volume);
    erase(lines_.lower_bound({volume, 0, 0}), lines_.upper_bound({volume, UINT64_MAX, UINT64_MAX}));
    whole_.erase(volume);
    known_again_ += any;
    return any;
}

}  // namespace wss::cache
