// SPDX-License-Identifier: Apache-2.0
#include "target/block/throttle_places.h"

#include <algorithm>

#include "target/block/limits.h"

namespace wss::block {

void ThrottlePlaces::drop(size_t index) noexcept {
    places_[index] = places_.back();
    places_.pop_back();
}

std::optional<Nanoseconds> ThrottlePlaces::take(uint64_t key, Nanoseconds now) noexcept {
    std::optional<size_t> found;
    for (size_t i = 0; i < places_.size(); ++i) {
        const Place& place = places_[i];
        if (place.key != key || now - place.refused > kThrottlePlaceKept) continue;
        if (!found || place.first < places_[*found].first) found = i;
    }
    if (!found) return std::nullopt;
    const Nanoseconds first = places_[*found].first;
    drop(*found);
    return first;
}

void ThrottlePlaces::keep(uint64_t key, Nanoseconds first, Nanoseconds now) noexcept {
    if (places_.capacity() == 0) places_.reserve(kThrottlePlaces);
    if (places_.size() == kThrottlePlaces)
        std::erase_if(places_, [&](const Place& place) { return now - place.refused > kThrottlePlaceKept; });
    if (places_.size() < kThrottlePlaces) return places_.push_back({key, first, now});
    auto newest = std::max_element(places_.begin(), places_.end(),
                                   [](const Place& a, const Place& b) { return a.first < b.first; });
    if (first < newest->first) *newest = {key, first, now};
}

}  // namespace wss::block
