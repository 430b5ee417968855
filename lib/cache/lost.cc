// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/lost.h"

#include <iterator>

namespace wss::cache {

void LostPieces::add(const Key& key, Pieces pieces) {
    if (pieces.empty() || is_whole(key.volume)) return;
    if (lines_.size() >= lines_max_ && !lines_.contains(key)) {
        forget(key.volume);
        return add_whole(key.volume);
    }
    lines_[key] |= pieces;
}

void LostPieces::add_whole(uint64_t volume) {
    whole_.insert(volume);
}

Pieces LostPieces::of(uint64_t volume, uint64_t line) const noexcept {
    if (is_whole(volume)) return {UINT64_MAX};
    Pieces pieces;
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line; ++at)
        pieces |= at->second;
    return pieces;
}

bool LostPieces::any_of(uint64_t volume) const noexcept {
    auto at = lines_.lower_bound({volume, 0, 0});
    return is_whole(volume) || (at != lines_.end() && at->first.volume == volume);
}

uint64_t LostPieces::pieces_of(uint64_t volume) const noexcept {
    uint64_t count = 0;
    for (auto at = lines_.lower_bound({volume, 0, 0}); at != lines_.end() && at->first.volume == volume; ++at)
        count += at->second.count();
    return count;
}

Pieces LostPieces::in_copy(const Key& key, Pieces dirty) const noexcept {
    Pieces pieces;
    for (auto at = lines_.lower_bound({key.volume, key.line, 0}); at != lines_.end() && at->first <= key;
         ++at)
        pieces |= at->second & dirty;
    return pieces;
}

bool LostPieces::found(uint64_t volume, uint64_t line, Pieces pieces) {
    bool any = false;
    for (auto at = lines_.lower_bound({volume, line, 0});
         at != lines_.end() && at->first.volume == volume && at->first.line == line;) {
        any = any || at->second.overlaps(pieces);
        at->second = at->second.without(pieces);
        at = at->second.empty() ? lines_.erase(at) : std::next(at);
    }
    known_again_ += any;
    return any;
}

bool LostPieces::cut(uint64_t volume, uint64_t line, Pieces left) {
    const auto first =
        left.empty() ? lines_.lower_bound({volume, line, 0}) : lines_.upper_bound({volume, line, UINT64_MAX});
    const auto end = lines_.upper_bound({volume, UINT64_MAX, UINT64_MAX});
    const bool any = first != end;
    lines_.erase(first, end);
    known_again_ += any;
    return (!left.empty() && found(volume, line, Pieces{UINT64_MAX}.without(left))) || any;
}

bool LostPieces::forget(uint64_t volume) {
    const bool any = any_of(volume);
    lines_.erase(lines_.lower_bound({volume, 0, 0}), lines_.upper_bound({volume, UINT64_MAX, UINT64_MAX}));
    whole_.erase(volume);
    known_again_ += any;
    return any;
}

}  // namespace wss::cache
