// SPDX-License-Identifier: Apache-2.0
// PendingPlaces: the limited places for connections that are pending authentication.
//
// When all places are taken, a newcomer evicts a connection of the older half. So no connection is evicted
// before `places` / 2 newer ones have arrived: at R connections per second, each has places / (2 R) seconds
// for its proof, whatever the sources (sources.h) of the others. Of the older half, the newcomer evicts
//  * a connection of a source that has not proven itself, if there is one. So initiators in service can
//    connect again during any flood from other sources. This holds for at most kProvenPlaces connections
//    of a source at one time, because a flood may come from a proven source as well.
//  * of these, the oldest one of the source that holds the most places. So a flood from few sources displaces
//    its own connections.
//
// The arrivals of a source are not counted, so a source that is evicted and tries again has no disadvantage.
//
// A newcomer gets no place only if too many evicted connections have not left yet and still hold memory.
//
// Thread-safety: none. An object belongs to one thread. It allocates, so it is for the control plane.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace wss::fabric {

class PendingPlaces {
  public:
    using Place = uint64_t;  // 0: none; ascending
    // Places of a proven source that are evicted last. An initiator may connect 64 channels at once.
    static constexpr size_t kProvenPlaces = 64;
    // Number of proven sources that are remembered: those with the latest proofs.
    static constexpr size_t kProvenMax = 4096;

    // `places` limits the connections at one time, and `leaving` the evicted ones that have not left yet.
    PendingPlaces(size_t places, size_t leaving) : places_(places), leaving_max_(leaving) {}

    struct Taken {
        Place place = 0;    // 0: no place available now
        Place evicted = 0;  // the caller closes this connection, and calls left() when it is gone
    };
    Taken take(const std::string& source);
    // The connection of `place` is gone.
    void left(Place place);
    // The connection of `place` has authenticated and is no longer pending.
    void proven(Place place);
    bool is_evicted(Place place) const { return leaving_.contains(place); }
    size_t proven_sources() const { return proven_.size(); }

  private:
    struct Source {
        size_t held = 0;
        bool is_proven = false;
    };
    using Sources = std::map<std::string, Source>;  // sources that hold places
    struct Held {
        Place place = 0;
        Sources::iterator source;
    };
    using Pending = std::vector<Held>;
    Pending::iterator next_to_evict();
    static size_t rank(const Source& source);
    Pending::iterator find(Place place);
    void remove(Pending::iterator pending);
    void remember(Sources::iterator source);

    const size_t places_, leaving_max_;
    Pending held_;  // oldest first
    Sources sources_;
    std::set<Place> leaving_;
    std::map<std::string, Place> proven_;  // the place of the latest proof of each source
    Place last_ = 0;
};

}  // namespace wss::fabric
