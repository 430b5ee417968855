// SPDX-License-Identifier: Apache-2.0
// StrangerPlaces: the few places of peers that have not shown yet who they are.
//
// A newcomer that finds all places taken evicts the oldest stranger of the source (sources.h) that has come
// most often in the last kMemory without showing who it is, whether it got a place or not. So a flood
// displaces its own connections, also if it comes from more addresses than there are places. The newcomer
// gets nothing at this moment if
//  * the stranger to evict came less than kGrace ago. A flood displaces its own connections no faster than
//    this: each has the time for a proof, and what the flood costs us is bounded. A source that came less
//    than half as often does not wait;
//  * too many that were evicted are not gone yet: they still hold their memory. Half of the room for them is
//    kept for evictions in favour of such sources.
//
// kSourcesMax sources are remembered. More of them make it forget earlier than after kMemory.
//
// Thread-safety: none; belongs to one thread. Control plane: allocates.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>

#include "lib/base/clock.h"

namespace wss::fabric {

class StrangerPlaces {
  public:
    using Place = uint64_t;  // 0: none
    static constexpr Nanoseconds kGrace = from_ms(100);
    static constexpr Nanoseconds kMemory = from_s(30);  // at least; at most twice that
    static constexpr size_t kSourcesMax = 4096;

    // `places` strangers, and `leaving` that were evicted and are not gone yet.
    StrangerPlaces(size_t places, size_t leaving) : places_(places), leaving_max_(leaving) {}

    struct Taken {
        Place place = 0;    // 0: there is none at this moment
        Place evicted = 0;  // the caller closes the stranger of this one; left() follows when it is gone
    };
    Taken take(const std::string& source, Nanoseconds now);
    // Its stranger is gone.
    void left(Place place);
    // It has shown who it is: no stranger any more.
    void proven(Place place);
    bool is_evicted(Place place) const { return leaving_.contains(place); }
    size_t sources() const { return sources_.size(); }

  private:
    struct Source {
        size_t held = 0;
        size_t lately = 0, before = 0;  // how often it came, in this part of time and in the one before
        size_t count() const { return lately + before; }
    };
    using Sources = std::map<std::string, Source>;
    struct Held {
        Place place = 0;
        Sources::iterator source;
        Nanoseconds since;
    };
    using Strangers = std::list<Held>;
    Strangers::iterator next_to_evict();
    bool may_evict(const Held& oldest, const Source& newcomer, Nanoseconds now) const;
    void remove(Strangers::iterator stranger);
    Strangers::iterator find(Place place);
    void forget_old(Nanoseconds now);
    void forget_part();

    const size_t places_, leaving_max_;
    Strangers held_;  // oldest first
    Sources sources_;
    std::set<Place> leaving_;
    Nanoseconds part_since_;
    Place last_ = 0;
};

}  // namespace wss::fabric
