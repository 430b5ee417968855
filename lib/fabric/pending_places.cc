// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/pending_places.h"

#include <algorithm>
#include <utility>

#include "lib/base/assert.h"

namespace wss::fabric {

PendingPlaces::Taken PendingPlaces::take(const std::string& source, Nanoseconds now) {
    forget_old(now);
    auto newcomer = sources_.try_emplace(source).first;
    ++newcomer->second.lately;
    Taken taken;
    if (held_.size() >= places_) {
        auto oldest = next_to_evict();
        if (!may_evict(*oldest, newcomer->second, now)) return taken;
        taken.evicted = oldest->place;
        leaving_.insert(oldest->place);
        remove(oldest);
    }
    taken.place = ++last_;
    ++newcomer->second.held;
    held_.push_back({taken.place, newcomer, now});
    return taken;
}

PendingPlaces::Pending::iterator PendingPlaces::next_to_evict() {
    // max_element() returns the first of equal elements: the oldest.
    return std::max_element(held_.begin(), held_.end(), [](const Held& one, const Held& other) {
        return one.source->second.count() < other.source->second.count();
    });
}

bool PendingPlaces::may_evict(const Held& oldest, const Source& newcomer, Nanoseconds now) const {
    if (leaving_.size() >= leaving_max_) return false;
    if (2 * newcomer.count() < oldest.source->second.count()) return true;
    return now - oldest.since >= kGrace && leaving_.size() < leaving_max_ / 2;
}

void PendingPlaces::left(Place place) {
    if (leaving_.erase(place) == 0) remove(find(place));
}

void PendingPlaces::proven(Place place) {
    if (leaving_.erase(place) != 0) return;
    auto pending = find(place);
    Source& source = pending->source->second;
    size_t& part = source.lately > 0 ? source.lately : source.before;
    if (part > 0) --part;
    remove(pending);
}

PendingPlaces::Pending::iterator PendingPlaces::find(Place place) {
    auto found =
        std::find_if(held_.begin(), held_.end(), [place](const Held& one) { return one.place == place; });
    WSS_ASSERT(found != held_.end(), "only an occupied place can be released");
    return found;
}

void PendingPlaces::remove(Pending::iterator pending) {
    auto source = pending->source;
    held_.erase(pending);
    if (--source->second.held == 0 && source->second.count() == 0) sources_.erase(source);
}

void PendingPlaces::forget_old(Nanoseconds now) {
    const Nanoseconds age = now - part_since_;
    if (age >= kMemory) forget_part();
    if (age >= kMemory + kMemory) forget_part();
    if (age >= kMemory) part_since_ = now;
    // After two passes only sources that hold places remain.
    for (int i = 0; i < 2 && sources_.size() >= kSourcesMax; ++i) forget_part();
}

void PendingPlaces::forget_part() {
    for (auto& [name, source] : sources_) source.before = std::exchange(source.lately, 0);
    std::erase_if(sources_,
                  [](const auto& each) { return each.second.held == 0 && each.second.count() == 0; });
}

}  // namespace wss::fabric
