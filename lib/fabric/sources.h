// SPDX-License-Identifier: Apache-2.0
// Sources: groups of peers that count as one when connections that are pending authentication compete for a
// few places. A source is the host of an address. For IPv6 it is the /64 network of the host, because one
// host may use all of it. For shm it is the process, and in the simulation the node.
//
// A listener that runs out of places for sockets evicts one of the older half: the oldest socket of the
// sources that hold the most. So a flood from one host displaces its own connections, unless all of them are
// in the newer half. Among sources that hold the same number, it evicts the oldest socket regardless of
// names, so that no host is always at a disadvantage. pending_places.h is for places that are held longer
// than a round trip.
//
// Thread-safety: none. A SourceCounts belongs to one thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace wss::fabric {

// `peer` is a value of Connection::peer() or ConnectRequest::peer().
std::string source_of(std::string_view peer);

// Number of places per source. The user bounds the total number of places, and with it the size.
class SourceCounts {
  public:
    void add(const std::string& source) { ++counts_[source]; }
    void remove(const std::string& source);
    size_t of(const std::string& source) const;
    // The largest count of any source. Several sources may have it.
    size_t most() const;
    bool empty() const { return counts_.empty(); }

  private:
    std::map<std::string, size_t> counts_;
};

}  // namespace wss::fabric
