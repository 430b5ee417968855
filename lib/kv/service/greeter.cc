// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/greeter.h"

#include <algorithm>

#include "lib/kv/placement.h"

namespace wss::kv {

Greeter::Greeter(Partition& partition, Access& access, const RegisteredArena& arena)
    : partition_(partition),
      access_(access),
      arena_(arena),
      leases_({.partition = partition.options().partition,
               .partitions = partition.count(),
               .lease = partition.options().lease,
               .seed = partition.random().next()}) {}

std::string Greeter::why_no_lease(wire::KvStatus status) const {
    const ServiceOptions& options = partition_.options();
    switch (status) {
        case wire::KvStatus::kIdTaken:
            return "this client id belongs to another client";
        case wire::KvStatus::kNoMemory:
            return fmt::format(
                "all client ids of partition {} are leased: the id of a vanished client becomes free after "
                "{} s",
                options.partition, options.lease.count / 1'000'000'000);
        default:
            return "invalid client id";
    }
}

void Greeter::hello(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    if (peer.greeted || !wire::parse(message, hello_))
        return peer.channel()->close("the peer's greeting is malformed");
    if (!access_.allows(peer, header, hello_)) return;
    if (hello_.nonce != 0) {
        const wire::KvStatus leased = lease_id(peer);
        if (leased != wire::KvStatus::kOk)
            return partition_.refuse(peer, header, leased, why_no_lease(leased));
    }
    peer.greeted = true;
    const std::string map = join_map(partition_.options().partitions);
    wire::KvHelloReply reply = facts(peer);
    reply.map = map;
    wire::KvHeader answer = partition_.reply_to(header, wire::KvStatus::kOk);
    answer.flags = wire::kKvHelloConditions;
    if (peer.may_access_memory)
        add_memory(peer, header.flags, reply);
    else
        answer.flags |= wire::kKvHelloNoMemory;
    peer.channel()->send(answer, reply);
    if (reply.ring.bytes == 0) return;
    // The reply must still be sent as a message.
    peer.flush_now();
    if (!peer.channel()->use_ring(hello_.ring, hello_.nonce))
        peer.channel()->close("the peer offers no valid ring");
}

wire::KvHelloReply Greeter::facts(const Peer& peer) const {
    const ServiceOptions& options = partition_.options();
    return {.client_id = peer.client_id,
            .partition = options.partition,
            .partitions = partition_.count(),
            .incarnation = partition_.incarnation(),
            .ticks = partition_.clock_stamp().ticks(),
            .window_ms = static_cast<uint32_t>(options.store.window.count / 1'000'000),
            .ring = {},
            .map = {},
            .index = {}};
}

// The memory that the client accesses with one-sided operations. `flags` are those of the hello.
void Greeter::add_memory(const Peer& peer, uint8_t flags, wire::KvHelloReply& reply) {
    const fabric::Region& arena = arena_.of_lane(peer.lane_index());
    reply.arena_rkey = arena.rkey(peer.channel()->device());
    reply.arena_address = arena.remote_address();
    reply.arena_bytes = partition_.store().arena().bytes;
    reply.arena_epoch = partition_.store().arena().epoch;
    if ((flags & wire::kKvHelloIndex) != 0 && hello_.nonce != 0) {
        partition_.store().expect_readers();
        reply.index = index_of(arena, peer.channel()->device());
    }
    if (hello_.ring.bytes != 0)
        reply.ring = hello_.ring.likewise ? peer.channel()->offer_ring(hello_.ring.announced)
                                          : peer.channel()->offer_ring();
}

// The index follows the arena in the same region.
wire::KvIndex Greeter::index_of(const fabric::Region& region, size_t device) const {
    const store::IndexFacts facts = partition_.store().index();
    if (facts.groups == 0) return {};
    return {.layout = store::kIndexLayout,
            .rkey = region.rkey(device),
            .address = region.remote_address() + arena_.arena().size(),
            .bytes = facts.bytes,
            .groups = facts.groups};
}

wire::KvStatus Greeter::lease_id(Peer& peer) {
    if (hello_.client_id > kClientIdMax) return wire::KvStatus::kMalformed;
    const Nanoseconds now = partition_.reactor().now();
    const Timestamp clock = partition_.lease_clock();
    peer.lease = hello_.client_id == 0 ? leases_.take(hello_.nonce, now, clock)
                                       : leases_.join(hello_.client_id, hello_.nonce, now, clock);
    if (peer.lease == nullptr)
        return hello_.client_id == 0 ? wire::KvStatus::kNoMemory : wire::KvStatus::kIdTaken;
    peer.client_id = peer.lease->id;
    return wire::KvStatus::kOk;
}

void Greeter::goodbye(Peer& peer, wire::Bytes message) {
    wire::KvDecision last;
    // Only timestamps of the returned id are accepted.
    if (peer.lease == nullptr || !wire::parse(message, last) ||
        (last.timestamp != 0 && Timestamp{last.timestamp}.client() != peer.client_id))
        return peer.channel()->close("malformed goodbye");
    // No partition has accepted timestamps beyond the bound.
    const auto bound_ticks = static_cast<uint64_t>(partition_.options().ahead_max.count / 1000);
    const Timestamp bound = Timestamp::make(partition_.lease_clock().ticks() + bound_ticks, 0);
    LeaseTable::say_goodbye(*peer.lease, std::min(Timestamp{last.timestamp}, bound));
}

void Greeter::recovered(Timestamp timestamp) {
    leases_.recovered(timestamp, partition_.reactor().clock().now(), partition_.clock_stamp());
}

void Greeter::leave(Peer& peer) {
    if (peer.lease != nullptr)
        leases_.leave(*peer.lease, partition_.reactor().now(), partition_.lease_clock());
}

}  // namespace wss::kv
