// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/connection_places.h"

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/base/source_limiter.h"

namespace wss::kv {

static bool may_log(const std::string& source) {
    static log::SourceLimiter limiter(10);
    return limiter.allow(source);
}

bool ConnectionPlaces::take(Peer& peer, const std::string& source, Nanoseconds now) {
    fabric::PendingPlaces::Taken taken;
    if (sources_of_.size() < kPeersMax && counts_.of(source) < kPeersPerSource)
        taken = places_.take(source, now);
    if (taken.place == 0) {
        ++counters_.refused;
        if (may_log(source))
            log::warning(
                "key-value service: {}: connection refused: {} are open, {} of them from this source", source,
                sources_of_.size(), counts_.of(source));
        return false;
    }
    for (Pending& each : pending_)
        if (each.place == taken.evicted) close(each, "too many connections without a greeting");
    pending_.push_back({&peer, taken.place, now});
    sources_of_.emplace(&peer, source);
    counts_.add(source);
    return true;
}

void ConnectionPlaces::greeted(Peer& peer) {
    auto pending = find_pending(peer);
    if (pending == pending_.end()) return;
    places_.proven(pending->place);
    pending_.erase(pending);
}

void ConnectionPlaces::left(Peer& peer) {
    auto pending = find_pending(peer);
    if (pending != pending_.end()) {
        places_.left(pending->place);
        pending_.erase(pending);
    }
    auto source = sources_of_.find(&peer);
    counts_.remove(source->second);
    sources_of_.erase(source);
}

std::list<ConnectionPlaces::Pending>::iterator ConnectionPlaces::find_pending(const Peer& peer) {
    return std::find_if(pending_.begin(), pending_.end(),
                        [&peer](const Pending& each) { return each.peer == &peer; });
}

void ConnectionPlaces::close(Pending& pending, const char* why) {
    if (std::exchange(pending.closing, true)) return;
    ++counters_.closed_ungreeted;
    const std::string& source = sources_of_.at(pending.peer);
    if (may_log(source)) log::warning("key-value service: {}: connection closed: {}", source, why);
    pending.peer->channel()->close(why);
}

void ConnectionPlaces::tick(Nanoseconds now) {
    for (Pending& each : pending_) {
        if (now - each.since < kGreetWithin) return;
        close(each, "the peer sent no greeting in time");
    }
}

}  // namespace wss::kv
