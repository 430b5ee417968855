// SPDX-License-Identifier: Apache-2.0
// PendingPlaces: the limited places for connections that are pending authentication.
//
// When all places are taken, a newcomer evicts a pending connection: the oldest one of the source (sources.h)
// with the most unproven arrivals in the last kMemory, admitted or not. So a flood displaces its own
// connections, even when it comes from more addresses than there are places. In two cases the newcomer gets
// no place for now:
//  * The connection to evict arrived less than kGrace ago. So each connection has time for its proof, and the
//    cost of a flood is bounded. This does not apply to a newcomer whose source has less than half as many
//    arrivals.
//  * Too many evicted connections still hold memory, because they have not left yet. Half of `leaving` is
//    reserved for evictions by newcomers whose source has less than half as many arrivals.
//
// At most kSourcesMax sources are remembered. If there are more, arrivals are forgotten before kMemory has
// passed.
//
// Thread-safety: none. An object belongs to one thread. It allocates, so it is for the control plane.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>

#include "lib/base/clock.h"

namespace wss::fabric {

class PendingPlaces {
  public:
    using Place = uint64_t;  // 0: none
    static constexpr Nanoseconds kGrace = from_ms(100);
    static constexpr Nanoseconds kMemory = from_s(30);  // minimum; the maximum is twice that
    static constexpr size_t kSourcesMax = 4096;

    // `places` limits the connections at one time, and `leaving` the evicted ones that have not left yet.
    PendingPlaces(size_t places, size_t leaving) : places_(places), leaving_max_(leaving) {}

    struct Taken {
        Place place = 0;    // 0: no place available now
        Place evicted = 0;  // the caller closes this connection, and calls left() when it is gone
    };
    Taken take(const std::string& source, Nanoseconds now);
    // The connection of `place` is gone.
    void left(Place place);
    // The connection of `place` has authenticated and is no longer pending.
    void proven(Place place);
    bool is_evicted(Place place) const { return leaving_.contains(place); }
    size_t sources() const { return sources_.size(); }

  private:
    struct Source {
        size_t held = 0;
        size_t lately = 0, before = 0;  // unproven arrivals in this period of kMemory and the one before
        size_t count() const { return lately + before; }
    };
    using Sources = std::map<std::string, Source>;
    struct Held {
        Place place = 0;
        Sources::iterator source;
        Nanoseconds since;
    };
    using Pending = std::list<Held>;
    Pending::iterator next_to_evict();
    bool may_evict(const Held& oldest, const Source& newcomer, Nanoseconds now) const;
    void remove(Pending::iterator pending);
    Pending::iterator find(Place place);
    void forget_old(Nanoseconds now);
    void forget_part();

    const size_t places_, leaving_max_;
    Pending held_;  // oldest first
    Sources sources_;
    std::set<Place> leaving_;
    Nanoseconds part_since_;
    Place last_ = 0;
};

}  // namespace wss::fabric
