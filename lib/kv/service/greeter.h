// SPDX-License-Identifier: Apache-2.0
// Greeter: handles hello and goodbye. It leases client ids and sends clients the facts about their partition.
//
// Thread-safety: none; belongs to the partition's reactor.
#pragma once

#include "lib/kv/service/access.h"
#include "lib/kv/service/partition.h"
#include "lib/kv/service/registered_arena.h"

namespace wss::kv {

class Greeter {
  public:
    Greeter(Partition& partition, Access& access, const RegisteredArena& arena);

    void hello(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    void goodbye(Peer& peer, wire::Bytes message);
    void leave(Peer& peer);  // its connection has ended
    // The log has a timestamp that the clock has not reached.
    void recovered(Timestamp timestamp);

    uint32_t ids() const { return leases_.range(); }
    uint32_t ids_leased(Nanoseconds now) const { return leases_.leased(now, partition_.lease_clock()); }

  private:
    wire::KvStatus lease_id(Peer& peer);
    wire::KvHelloReply facts(const Peer& peer) const;
    void add_memory(const Peer& peer, uint8_t flags, wire::KvHelloReply& reply);
    wire::KvIndex index_of(const fabric::Region& region, size_t device) const;
    std::string why_no_lease(wire::KvStatus status) const;

    Partition& partition_;
    Access& access_;
    const RegisteredArena& arena_;
    LeaseTable leases_;
    wire::KvHello hello_;  // scratch for one message
};

}  // namespace wss::kv
