// SPDX-License-Identifier: Apache-2.0
// LeaseTable: which client has which client id at one partition.
//
// Every partition leases ids from a range of its own, so that a client needs any one of them. Each partition
// decides for itself who may use an id there: the first nonce that presents it. An id is free again
// Options::lease after the last connection of its client ended, or at once when the client said goodbye.
//
// Whoever gets an id after another client must not issue that client's timestamps anew: what is at or below
// `after` was its. The partition refuses those as too old. Where they are ahead of the partition's clock the
// id is free only when the clock has passed them, however its client ended: else it could give ids back that
// nobody can write with.
//
// A partition that restarts knows no ids. Clients come back with theirs; a new client that was leased the
// same id meanwhile is refused where both come, and leases another one.
//
// Thread-safety: none; belongs to the service's reactor.
#pragma once

#include <unordered_map>

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
    struct Lease {
        uint32_t id = 0;
        uint64_t nonce = 0;
        uint32_t connections = 0;
        Nanoseconds until{};  // while there is no connection
        Timestamp last;       // that was used here
        Timestamp after;      // what the id's former client may have used
        bool goodbye = false;
    };
    explicit LeaseTable(const Options& options);

    // A connection of a client that has no id. nullptr: all of the range are leased.
    Lease* take(uint64_t nonce, Nanoseconds now);
    // … of one that has. nullptr: another client has it.
    Lease* join(uint32_t id, uint64_t nonce, Nanoseconds now);
    // `clock`: the partition's time of day.
    void leave(Lease& lease, Nanoseconds now, Timestamp clock);
    // The client will not come again; `last`: the latest timestamp that it issued.
    static void say_goodbye(Lease& lease, Timestamp last);

    uint32_t range() const { return last_ - first_ + 1; }
    uint32_t leased(Nanoseconds now) const;  // of the range

  private:
    static bool is_free(const Lease& lease, Nanoseconds now) {
        return lease.connections == 0 && lease.until <= now;
    }
    static void hand_over(Lease& lease, uint64_t nonce);

    const Nanoseconds lease_;
    const uint32_t first_, last_;
    uint32_t next_;
    std::unordered_map<uint32_t, Lease> leases_;  // entries stay where they are
};

}  // namespace wss::kv
