// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/partition.h"

#include <algorithm>
#include <utility>

#include "lib/kv/placement.h"

namespace wss::kv {

Partition::Partition(reactor::Reactor& reactor, WallClock& wall, ServiceOptions options)
    : reactor_(reactor),
      options_(std::move(options)),
      clock_(wall),
      random_(options_.seed),
      incarnation_(random_.next() | 1),
      started_(reactor.clock().now()) {}

Partition::~Partition() {
    if (store_) reactor_.remove(*store_);
}

Status Partition::open(const store::Store::Memory& memory, store::Log* log,
                       const std::function<void(Timestamp)>& seen) {
    store::Options options = options_.store;
    options.epoch = random_.next() | 1;
    auto made = store::Store::create(options, memory, reactor_.clock(), log);
    if (!made) return made.status();
    const Timestamp clock = clock_stamp();
    WSS_TRY((*made)->recover([&](Timestamp timestamp) {
        if (timestamp > clock) seen(timestamp);
    }));
    store_ = std::move(*made);
    reactor_.add(*store_);
    ready_ = store_->overdue({0}, 1).empty();
    return Status::ok();
}

// This is the only bound on timestamps from peers: a request with a later one leaves no trace. A timestamp
// that is known here was once within the bound. The bound starts at the floor if the clock is behind it, as
// after a step back, so that writes can still pass the floor.
bool Partition::is_too_far_ahead(Timestamp timestamp, uint64_t lead) {
    const uint64_t now = lease_clock().ticks();
    if (timestamp.ticks() > now)
        counters_.ahead_max_us = std::max(counters_.ahead_max_us, timestamp.ticks() - now);
    return is_beyond_bound(timestamp, lead) && !store_->knows(timestamp);
}

bool Partition::is_beyond_bound(Timestamp timestamp, uint64_t lead) const {
    const uint64_t now = lease_clock().ticks();
    return timestamp.ticks() > now &&
           timestamp.ticks() - now + lead > static_cast<uint64_t>(options_.ahead_max.count / 1000);
}

void Partition::note_time(wire::KvKind kind, const Peer& peer, size_t keys, Nanoseconds began) {
    const Nanoseconds now = reactor_.clock().now();
    slow_log_.add({.kind = kind,
                   .client = peer.client_id,
                   .keys = static_cast<uint32_t>(keys),
                   .at = now - started_,
                   .took = now - began},
                  options_.slow);
}

// --- answers ---

wire::KvStatus Partition::check_key(std::string_view key) const {
    return partition_of(fingerprint(key), count()) == options_.partition ? wire::KvStatus::kOk
                                                                         : wire::KvStatus::kWrongPartition;
}

wire::KvHeader Partition::reply_to(const wire::KvHeader& request, wire::KvStatus status) const {
    return {.kind = request.kind,
            .is_reply = true,
            .status = status,
            .flags = 0,
            .id = request.id,
            .epoch = map_epoch(count())};
}

void Partition::answer(Peer& peer, const wire::KvHeader& request, wire::KvStatus status,
                       uint64_t timestamp) const {
    if (request.id == 0 && request.kind != wire::KvKind::kHello) return;  // no reply is wanted
    peer.channel()->send(reply_to(request, status), wire::KvDecision{.timestamp = timestamp});
}

void Partition::refuse(Peer& peer, const wire::KvHeader& request, wire::KvStatus status,
                       std::string_view why) {
    ++counters_.refused;
    if (status == wire::KvStatus::kMalformed) ++counters_.malformed;
    peer.channel()->send(reply_to(request, status), wire::KvText{.text = why});
}

void Partition::refuse_write(Peer& peer, const wire::KvHeader& request, wire::KvStatus status,
                             Timestamp refused) const {
    // When the client reconnects, its id is refused.
    if (peer.lease != nullptr && LeaseTable::is_spent(*peer.lease, lease_clock()))
        return peer.channel()->close(
            "an earlier client of this id has used the timestamps that would be issued next");
    Timestamp named = store_->floor();
    if (status == wire::KvStatus::kTooOld)
        named = std::max(named, LeaseTable::former_until(*peer.lease, refused));
    if (status == wire::KvStatus::kTooFarAhead) named = clock_stamp();
    answer(peer, request, status, named.value);
}

}  // namespace wss::kv
