// SPDX-License-Identifier: Apache-2.0
// Sources: which peers count as one where strangers compete for few places. A source is the host of an
// address, the network of 64 bits of an IPv6 address (one host may use all of it), the process over shm, the
// node in the simulation.
//
// A listener that runs out of places for sockets evicts the oldest whose source holds most of them. So a
// flood from one host displaces its own connections, and a login from another host is never displaced by it.
// Of sources that hold the same number it is age that decides, never their names: no host is always the one
// that gives way. Where a stranger keeps its place for longer than a round trip see stranger_places.h.
//
// Thread-safety: none; a SourceCounts belongs to one thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace wss::fabric {

// Of what Connection::peer() and ConnectRequest::peer() return.
std::string source_of(std::string_view peer);

// How many places each source holds. Its size is the number of places, which its user bounds.
class SourceCounts {
  public:
    void add(const std::string& source) { ++counts_[source]; }
    void remove(const std::string& source);
    size_t of(const std::string& source) const;
    // What the source holds that holds most; there may be several such sources.
    size_t most() const;
    bool empty() const { return counts_.empty(); }

  private:
    std::map<std::string, size_t> counts_;
};

}  // namespace wss::fabric
