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
    if (sources_of_.size() >= kPeersMax) return refuse(source, fmt::format("{} are open", kPeersMax));
    if (counts_.of(source) >= kPeersPerSource)
        return refuse(source, fmt::format("{} are open from this source", kPeersPerSource));
    const auto taken = places_.take(source);
    if (taken.place == 0)
        return refuse(source, fmt::format("{} without a greeting are open, and {} more are being closed",
                                          kPendingMax, kPendingLeaving));
    if (taken.evicted != 0)
        for (Pending& each : pending_)
            if (each.place == taken.evicted) close(each, "too many connections without a greeting");
    pending_.push_back({&peer, taken.place, now});
    sources_of_.emplace(&peer, source);
    counts_.add(source);
    return true;
}

// `limit` describes the limit that the connections have reached.
bool ConnectionPlaces::refuse(const std::string& source, const std::string& limit) {
    ++counters_.refused;
    if (may_log(source))
        log::warning("key-value service: {}: connection refused: {}, the limit", source, limit);
    return false;
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
