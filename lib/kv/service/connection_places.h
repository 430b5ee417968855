// SPDX-License-Identifier: Apache-2.0
// ConnectionPlaces: limits the connections that a partition accepts, in total and per source, and the time
// within which a connection must send its greeting.
//
// Connections that have not sent a greeting share kPendingMax places (lib/fabric/pending_places.h). Each
// keeps its place for at most kGreetWithin, and at least until half as many newer ones have arrived.
//
// Thread-safety: none; belongs to the partition's reactor.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "lib/fabric/pending_places.h"
#include "lib/fabric/sources.h"
#include "lib/kv/service/peer.h"

namespace wss::kv {

constexpr size_t kPeersMax = 4096;
constexpr size_t kPeersPerSource = kPeersMax / 4;
constexpr size_t kPendingMax = 512;
constexpr size_t kPendingLeaving = 512;  // evicted, but not closed yet
constexpr Nanoseconds kGreetWithin = from_s(5);

class ConnectionPlaces {
  public:
    struct Counters {
        uint64_t refused = 0;           // no place was free
        uint64_t closed_ungreeted = 0;  // timed out or evicted
    };
    // Returns false if no place is free. May close the connection of another peer.
    bool take(Peer& peer, const std::string& source, Nanoseconds now);
    void greeted(Peer& peer);
    void left(Peer& peer);  // its connection has ended, or was never accepted
    // Closes connections that sent no greeting in time.
    void tick(Nanoseconds now);
    const Counters& counters() const { return counters_; }

  private:
    struct Pending {
        Peer* peer = nullptr;
        fabric::PendingPlaces::Place place = 0;
        Nanoseconds since;
        bool closing = false;
    };
    std::list<Pending>::iterator find_pending(const Peer& peer);
    bool refuse(const std::string& source, const std::string& limit);
    void close(Pending& pending, const char* why);

    std::map<const Peer*, std::string> sources_of_;  // all connections
    fabric::SourceCounts counts_;                    // sources of the same connections
    fabric::PendingPlaces places_{kPendingMax, kPendingLeaving};
    std::list<Pending> pending_;  // oldest first, including those that are closing
    Counters counters_;
};

}  // namespace wss::kv
