// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/pending_places.h"

#include <algorithm>

#include "lib/base/assert.h"

namespace wss::fabric {

PendingPlaces::Taken PendingPlaces::take(const std::string& source) {
    Taken taken;
    if (held_.size() >= places_) {
        if (leaving_.size() >= leaving_max_) return taken;
        auto evicted = next_to_evict();
        taken.evicted = evicted->place;
        leaving_.insert(evicted->place);
        remove(evicted);
    }
    taken.place = ++last_;
    auto newcomer = sources_.try_emplace(source).first;
    if (++newcomer->second.held == 1) newcomer->second.is_proven = proven_.contains(source);
    held_.push_back({taken.place, newcomer});
    return taken;
}

PendingPlaces::Pending::iterator PendingPlaces::next_to_evict() {
    const auto older_half = static_cast<Pending::difference_type>((held_.size() + 1) / 2);
    // max_element() returns the first of equal elements: the oldest.
    return std::max_element(held_.begin(), held_.begin() + older_half,
                            [](const Held& one, const Held& other) {
                                return rank(one.source->second) < rank(other.source->second);
                            });
}

size_t PendingPlaces::rank(const Source& source) {
    return source.is_proven && source.held <= kProvenPlaces ? 0 : source.held;
}

void PendingPlaces::left(Place place) {
    if (leaving_.erase(place) == 0) remove(find(place));
}

void PendingPlaces::proven(Place place) {
    if (leaving_.erase(place) != 0) return;
    auto pending = find(place);
    remember(pending->source);
    remove(pending);
}

void PendingPlaces::remember(Sources::iterator source) {
    source->second.is_proven = true;
    proven_[source->first] = ++last_;
    if (proven_.size() <= kProvenMax) return;
    proven_.erase(std::min_element(proven_.begin(), proven_.end(), [](const auto& one, const auto& other) {
        return one.second < other.second;
    }));
}

PendingPlaces::Pending::iterator PendingPlaces::find(Place place) {
    auto found = std::lower_bound(held_.begin(), held_.end(), place,
                                  [](const Held& held, Place wanted) { return held.place < wanted; });
    WSS_ASSERT(found != held_.end() && found->place == place, "only an occupied place can be released");
    return found;
}

void PendingPlaces::remove(Pending::iterator pending) {
    auto source = pending->source;
    held_.erase(pending);
    if (--source->second.held == 0) sources_.erase(source);
}

}  // namespace wss::fabric
