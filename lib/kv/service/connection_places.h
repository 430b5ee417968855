// SPDX-License-Identifier: Apache-2.0
// ConnectionPlaces: how many connections a partition takes, of all peers and of each source, and how long one
// may stay that does not greet.
//
// A connection without a greeting is a stranger: there are few places for them
// (lib/fabric/stranger_places.h), each for kGreetWithin. So whoever connects and sends nothing displaces
// itself, and a source cannot take all connections.
//
// Thread-safety: none; belongs to the partition's reactor.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "lib/fabric/sources.h"
#include "lib/fabric/stranger_places.h"
#include "lib/kv/service/peer.h"

namespace wss::kv {

constexpr size_t kPeersMax = 4096;
constexpr size_t kPeersPerSource = kPeersMax / 4;
constexpr size_t kStrangersMax = 256;
constexpr size_t kStrangersLeaving = 256;  // evicted, and not gone yet
constexpr Nanoseconds kGreetWithin = from_s(5);

class ConnectionPlaces {
  public:
    struct Counters {
        uint64_t refused = 0;           // there was no place
        uint64_t closed_ungreeted = 0;  // their time was over, or they gave way
    };
    // False: there is none for it. May close the connection of another peer.
    bool take(Peer& peer, const std::string& source, Nanoseconds now);
    void greeted(Peer& peer);
    void left(Peer& peer);  // its connection is over, or was never accepted
    // Closes those whose time for a greeting is over.
    void tick(Nanoseconds now);
    const Counters& counters() const { return counters_; }

  private:
    struct Stranger {
        Peer* peer = nullptr;
        fabric::StrangerPlaces::Place place = 0;
        Nanoseconds since;
        bool closing = false;
    };
    std::list<Stranger>::iterator find_stranger(const Peer& peer);
    void close(Stranger& stranger, const char* why);

    std::map<const Peer*, std::string> sources_of_;  // of all connections
    fabric::SourceCounts counts_;                    // the same
    fabric::StrangerPlaces places_{kStrangersMax, kStrangersLeaving};
    std::list<Stranger> strangers_;  // oldest first; also those that are closing
    Counters counters_;
};

}  // namespace wss::kv
