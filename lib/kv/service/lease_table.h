// SPDX-License-Identifier: Apache-2.0
// LeaseTable: the leases of client ids at one partition.
//
// Every partition leases ids from its own range, so that a client needs only one partition to get an id. Each
// partition decides separately which client may use an id there: the one that presents it first, with its
// nonce. An id becomes free when Options::lease has passed since its client's last connection ended, or at
// once if the client sent a goodbye.
//
// A client that gets a former client's id must not issue that client's timestamps again: the partition
// refuses them as too old. Timestamps at or below `after` were used by former clients. If they are ahead of
// the partition's clock, but within the bound of acceptance, the id becomes free only when the clock has
// passed them, however its client ended. Otherwise the table could lease ids with which no client can write.
//
// After the clock was set back, used timestamps may be further ahead. Their ids are not blocked until the
// clock reaches them, which may take years. Instead, used timestamps are kept as spans, and the next client
// writes with timestamps before the spans. When the clock reaches a span, a client that still has such an id
// is refused and leases another one.
//
// A restarted partition has no leases. Clients return with their ids. If one of these ids was leased to a new
// client meanwhile, a partition to which both clients connect refuses the later one, which then leases
// another id.
//
// The log has timestamps that were used before a restart. If one is ahead of the clock, its id is not free
// until the clock has passed it. The nonce of its client is not known. If the id is of this partition's
// range, the first client that presents it is its owner: no other client can have got the id since the
// restart. If the id is of another range, that partition may have restarted as well and leased the id to a
// new client. So no client may use it here until the clock has passed the timestamp.
//
// Thread-safety: none; belongs to the service's reactor.
#pragma once

#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/kv/types.h"

namespace wss::kv {

class LeaseTable {
  public:
    struct Options {
        uint32_t partition = 0;
        uint32_t partitions = 1;
        Nanoseconds lease = from_s(60);
        uint64_t seed = 0;  // start within the range; should differ after each restart
    };
    struct Span {
        Timestamp first, last;
    };
    struct Lease {
        uint32_t id = 0;
        uint64_t nonce = 0;  // 0: no client yet, or one from before a restart
        uint32_t connections = 0;
        Nanoseconds until{};       // end of the lease if there is no connection
        std::vector<Span> used;    // timestamps used here by its client
        std::vector<Span> former;  // those used by former clients, if later than `after`
        Timestamp after;           // former clients used timestamps up to here
        bool goodbye = false;
    };
    explicit LeaseTable(const Options& options);

    // Leases an id to a client that has none, for its connection. `clock` is the partition's time of day.
    // Returns nullptr if all ids of the range are leased.
    Lease* take(uint64_t nonce, Nanoseconds now, Timestamp clock);
    // Lets a client use its id here, for its connection. Returns nullptr if another client has the id, or if
    // this client would soon meet timestamps of former clients.
    Lease* join(uint32_t id, uint64_t nonce, Nanoseconds now, Timestamp clock);
    void leave(Lease& lease, Nanoseconds now, Timestamp clock);
    // The client will not return. `last` is the latest timestamp that it issued.
    static void say_goodbye(Lease& lease, Timestamp last);

    // A client from before the restart has used `timestamp`, which is ahead of the clock.
    void recovered(Timestamp timestamp, Nanoseconds now, Timestamp clock);

    // Records that its client has used `timestamp`.
    static void use(Lease& lease, Timestamp timestamp);
    // If `timestamp` belongs to a former client: the end of that client's timestamps. Otherwise none.
    static Timestamp former_until(const Lease& lease, Timestamp timestamp);
    // The timestamp that a write between `from` and `ticks` later must exceed, so that it does not meet the
    // timestamps of former clients.
    static Timestamp former_within(const Lease& lease, Timestamp from, uint64_t ticks);
    // True if the current client would soon meet former clients' timestamps, because the clock is close to
    // them.
    static bool is_spent(const Lease& lease, Timestamp clock);

    uint32_t range() const { return last_ - first_ + 1; }
    uint32_t leased(Nanoseconds now, Timestamp clock) const;  // number of leased ids of the range

  private:
    static bool is_free(const Lease& lease, Nanoseconds now, Timestamp clock);
    static void hand_over(Lease& lease, uint64_t nonce, Timestamp clock);
    static void keep_until_passed(Lease& lease, Nanoseconds now, Timestamp clock);
    bool is_of_range(uint32_t id) const { return id >= first_ && id <= last_; }

    const Nanoseconds lease_;
    const uint32_t first_, last_;
    uint32_t next_;
    std::unordered_map<uint32_t, Lease> leases_;  // entries have stable addresses
};

}  // namespace wss::kv
