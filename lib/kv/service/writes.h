// SPDX-License-Identifier: Apache-2.0
// Writes: handles prepares, decisions and conditional puts.
//
// Thread-safety: none; belongs to the partition's reactor. Ownership: must be destroyed before the store. Its
// destructor withdraws its continuations from the store.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "lib/kv/service/access.h"
#include "lib/kv/service/partition.h"
#include "lib/kv/service/terminations.h"

namespace wss::kv {

class Writes {
  public:
    Writes(Partition& partition, Access& access, const Terminations& terminations)
        : partition_(partition), access_(access), terminations_(terminations) {}
    ~Writes();
    void prepare(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    void put_if(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    void decide(Peer& peer, const wire::KvHeader& header, wire::Bytes message);  // commit, abort, inquire

  private:
    // A write or decision that the store answers at once or later.
    struct Pending : Owed {
        Writes* writes = nullptr;
        size_t at = 0;  // position in the pool
        Timestamp timestamp;
        bool committing = false;
        uint64_t unlock = 0;  // owner whose locks end with this write
        size_t keys = 0;
        Nanoseconds since{};
    };
    // State of the locks that a prepare needs.
    struct Locked {
        bool held = false;         // all are still held
        bool above_floor = false;  // its timestamp was above the floor when they were granted
        bool in_bound = false;     // and its timestamp was not too far ahead of the owner
    };

    // `in_bound` means that the timestamp was within the bound when its locks were granted.
    wire::KvStatus check_timestamp(const Peer& peer, wire::KvKind kind, Timestamp timestamp,
                                   bool in_bound = false);
    wire::KvStatus check_prepare(const Peer& peer, const wire::KvHeader& header, bool locked,
                                 const Locked& under);
    bool follows_versions(Timestamp timestamp, std::span<const store::Write> writes) const;
    bool are_distinct_partitions() const;
    Locked look_at_locks(bool committing);
    void collect_items();
    void put_prepared(Peer& peer, const wire::KvHeader& header, bool locked, const Locked& under);
    void refuse_condition(Pending& pending, const store::Transaction& transaction);
    bool is_prepared(Timestamp timestamp) const;
    bool may_inquire_ahead(Timestamp timestamp);
    static wire::KvStatus status_of(wire::KvKind kind, bool committing, store::Answer answer);
    Pending& expect(Peer& peer, const wire::KvHeader& request, Timestamp timestamp);
    static void answered(void* context, store::Answer answer) noexcept;
    void finish(Pending& pending, store::Answer answer);

    Partition& partition_;
    Access& access_;
    const Terminations& terminations_;
    OwedPool<Pending> pending_;
    std::set<Timestamp> inquiries_ahead_;  // answered, and beyond the bound when last looked at
    // Scratch for one message at a time.
    wire::KvPrepare prepare_;
    std::vector<store::Write> writes_;
    std::vector<store::Condition> conditions_;
};

}  // namespace wss::kv
