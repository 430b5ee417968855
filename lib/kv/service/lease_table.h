// SPDX-License-Identifier: Apache-2.0
// LeaseTable: which client has which client id at one partition.
//
// Every partition leases ids from a range of its own, so that a client needs any one of them. Each partition
// decides for itself who may use an id there: the first nonce that presents it. An id is free again
// Options::lease after the last connection of its client ended, or at once when the client said goodbye.
//
// Whoever gets an id after another client must not issue that client's timestamps anew: the partition refuses
// them as too old. Those at or below `after` were its. Where they are ahead of the partition's clock by no
// more than the bound of what is accepted, the id is free only when the clock has passed them, however its
// client ended: else the table could give ids back that nobody can write with.
//
// Timestamps may be ahead by more, after the clock was set back. Their ids are not blocked until the clock
// comes there again, perhaps in years: what was used is kept as spans, and the next client writes before
// them. When the clock does come there, a client that still has such an id is refused it, and leases another
// one.
//
// A partition that restarts knows no ids. Clients come back with theirs; a new client that was leased the
// same id meanwhile is refused where both come, and leases another one.
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
        uint64_t seed = 0;  // where in the range it begins: not where it did before a restart
    };
    struct Span {
        Timestamp first, last;
    };
    struct Lease {
        uint32_t id = 0;
        uint64_t nonce = 0;
        uint32_t connections = 0;
        Nanoseconds until{};       // while there is no connection
        std::vector<Span> used;    // here, by its client
        std::vector<Span> former;  // … by clients before it, as far as that is later than `after`
        Timestamp after;           // what was used before, at or below
        bool goodbye = false;
    };
    explicit LeaseTable(const Options& options);

    // `clock`: the partition's time of day.
    // A connection of a client that has no id. nullptr: all of the range are leased.
    Lease* take(uint64_t nonce, Nanoseconds now, Timestamp clock);
    // … of one that has. nullptr: another client has it, or its former clients' timestamps are due.
    Lease* join(uint32_t id, uint64_t nonce, Nanoseconds now, Timestamp clock);
    void leave(Lease& lease, Nanoseconds now, Timestamp clock);
    // The client will not come again; `last`: the latest timestamp that it issued.
    static void say_goodbye(Lease& lease, Timestamp last);

    // Its client uses `timestamp`.
    static void use(Lease& lease, Timestamp timestamp);
    // What a timestamp must be later than not to be a former client's; none: `timestamp` is not.
    static Timestamp former_until(const Lease& lease, Timestamp timestamp);
    // What a timestamp from `from` to so many ticks later must be later than not to be one of theirs.
    static Timestamp former_within(const Lease& lease, Timestamp from, uint64_t ticks);
    // Former clients' timestamps lie so near before the clock that the present client would meet them.
    static bool is_spent(const Lease& lease, Timestamp clock);

    uint32_t range() const { return last_ - first_ + 1; }
    uint32_t leased(Nanoseconds now, Timestamp clock) const;  // of the range

  private:
    static bool is_free(const Lease& lease, Nanoseconds now, Timestamp clock);
    static void hand_over(Lease& lease, uint64_t nonce, Timestamp clock);

    const Nanoseconds lease_;
    const uint32_t first_, last_;
    uint32_t next_;
    std::unordered_map<uint32_t, Lease> leases_;  // entries stay where they are
};

}  // namespace wss::kv
