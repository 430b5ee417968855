// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/writes.h"

#include <algorithm>
#include <bitset>

#include "lib/kv/metadata.h"

namespace wss::kv {

// Inquired timestamps that are beyond the bound at a time. Their aborts are remembered until the clock
// reaches them.
constexpr size_t kInquiriesAheadMax = 4096;

Writes::~Writes() {
    pending_.clear([this](Pending& pending) { partition_.store().forget(&pending); });
}

wire::KvStatus Writes::check_timestamp(const Peer& peer, wire::KvKind kind, Timestamp timestamp,
                                       bool in_bound) {
    // Other partitions may inquire. Only the owner of the client id may write and decide.
    if (kind != wire::KvKind::kInquire && timestamp.client() != peer.client_id &&
        !mutated(Mutation::kCollidingTimestamps))
        return wire::KvStatus::kNotLeased;
    if (!in_bound && partition_.is_too_far_ahead(timestamp)) return wire::KvStatus::kTooFarAhead;
    if (kind != wire::KvKind::kPrepare && kind != wire::KvKind::kPutIf) return wire::KvStatus::kOk;
    if (!LeaseTable::former_until(*peer.lease, timestamp).is_none()) return wire::KvStatus::kTooOld;
    LeaseTable::use(*peer.lease, timestamp);
    return wire::KvStatus::kOk;
}

// If the clock was set back, the latest version of a key may be beyond the bound. Without this exception, the
// key could not be written until the clock reaches that version. It applies only if all keys have such a
// version: no key gets beyond the bound because of another one, or in small steps.
bool Writes::follows_versions(Timestamp timestamp, std::span<const store::Write> writes) const {
    return !writes.empty() && std::all_of(writes.begin(), writes.end(), [&](const store::Write& write) {
        const Timestamp newest = partition_.store().newest({.writes = {&write, 1}});
        return partition_.is_beyond_bound(newest) && newest.ticks() <= timestamp.ticks() &&
               timestamp.ticks() <= newest.ticks() + kNextVersion_ticks;
    });
}

wire::KvStatus Writes::status_of(wire::KvKind kind, bool committing, store::Answer answer) {
    using Status = wire::KvStatus;
    switch (answer) {
        case store::Answer::kOk:
            if (kind == wire::KvKind::kAbort) return Status::kAborted;
            return committing ? Status::kCommitted : Status::kPrepared;
        case store::Answer::kCommitted:
            return Status::kCommitted;
        case store::Answer::kPrepared:
            return Status::kPrepared;
        case store::Answer::kAborted:
            return Status::kAborted;
        case store::Answer::kUnknown:
            return Status::kUnknown;
        case store::Answer::kTooOld:
            return kind == wire::KvKind::kCommit ? Status::kUnknown : Status::kTooOld;
        case store::Answer::kConflict:
            return Status::kConditionFailed;
        case store::Answer::kBusy:
            // The client repeats a decision unchanged, but it repeats a write with a later timestamp.
            return kind == wire::KvKind::kPrepare || kind == wire::KvKind::kPutIf ? Status::kLockConflict
                                                                                  : Status::kNotReady;
        case store::Answer::kNoMemory:
            return Status::kNoMemory;
        case store::Answer::kInvalid:
            return Status::kMalformed;
        case store::Answer::kIo:
            return Status::kIo;
        default:
            return Status::kNotReady;
    }
}

// --- pending answers ---

Writes::Pending& Writes::expect(Peer& peer, const wire::KvHeader& request, Timestamp timestamp) {
    Pending& pending = pending_.take();
    pending.owe(peer, request);
    pending.writes = this;
    pending.timestamp = timestamp;
    pending.committing = false;
    pending.unlock = 0;
    pending.keys = 0;
    pending.since = partition_.reactor().clock().now();
    return pending;
}

void Writes::answered(void* context, store::Answer answer) noexcept {
    Pending& pending = *static_cast<Pending*>(context);
    pending.writes->finish(pending, answer);
}

void Writes::finish(Pending& pending, store::Answer given) {
    const wire::KvStatus status = status_of(pending.header().kind, pending.committing, given);
    if (pending.unlock != 0) partition_.store().locks().unlock_all(pending.unlock);
    if (Peer* peer = pending.peer()) {
        Timestamp timestamp = pending.timestamp;
        if (status == wire::KvStatus::kTooOld) timestamp = std::max(timestamp, partition_.store().floor());
        // Report a conflicting timestamp exactly. If the clock is ahead of it, the client would mistake the
        // clock for a version.
        const bool is_in_the_way =
            status == wire::KvStatus::kConditionFailed || status == wire::KvStatus::kTooOld;
        if (!is_in_the_way) timestamp = std::max(timestamp, partition_.clock_stamp());
        partition_.answer(*peer, pending.header(), status, timestamp.value);
        partition_.note_time(pending.header().kind, *peer, pending.keys, pending.since);
    }
    pending_.give(pending);
}

// --- prepare ---

// A participant that does not exist can never answer an inquiry, and the transaction would stay undecided for
// ever. A repeated one would cost an extra inquiry each time.
bool Writes::are_distinct_partitions() const {
    std::bitset<kPartitionsMax> seen;
    for (uint16_t participant : prepare_.participants) {
        if (participant >= partition_.count() || seen.test(participant)) return false;
        seen.set(participant);
    }
    return true;
}

// Granted locks stay valid for a write that commits at once: it is refused neither for a floor that rose
// since, nor for a clock that was set back. A prepare is refused like any other, because the other
// participants treat a timestamp at or below the floor as refused.
Writes::Locked Writes::look_at_locks(bool committing) {
    const Timestamp timestamp{prepare_.timestamp}, owner{prepare_.owner};
    Locked all{.held = true, .above_floor = true};
    for (const wire::KvPrepare::Item& item : prepare_.items) {
        const auto floor = partition_.store().locks().granted_at(item.key, prepare_.owner);
        all.held = all.held && floor.has_value();
        all.above_floor = all.above_floor && floor.has_value() && *floor < timestamp;
    }
    all.in_bound = committing && all.held && timestamp.ticks() <= owner.ticks() + kLockedLead_ticks;
    all.above_floor = committing && all.above_floor;
    return all;
}

void Writes::prepare(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    if (!wire::parse(message, prepare_))
        return partition_.refuse(peer, header, wire::KvStatus::kMalformed, "malformed prepare");
    if (!access_.allows(peer, header, prepare_)) return;
    if (!are_distinct_partitions())
        return partition_.refuse(peer, header, wire::KvStatus::kMalformed,
                                 "a participant is not a partition, or is listed twice");
    const bool committing = (header.flags & wire::kKvPrepareCommit) != 0;
    const bool unlocking = (header.flags & wire::kKvPrepareUnlock) != 0;
    // The locks at the other participants may have ended; their part would be missing.
    if (committing && unlocking && prepare_.participants.size() > 1)
        return partition_.refuse(peer, header, wire::KvStatus::kMalformed,
                                 "a write under locks of several partitions that is not prepared first");
    const bool conditional = (header.flags & wire::kKvPrepareIf) != 0;
    if (conditional && (unlocking || (committing && prepare_.participants.size() > 1)))
        return partition_.refuse(peer, header, wire::KvStatus::kMalformed,
                                 "a write with conditions under locks, or on several partitions at once");
    const Timestamp timestamp{prepare_.timestamp};
    if (terminations_.waits_in_vain(prepare_.participants) && !partition_.store().knows(timestamp))
        return partition_.answer(peer, header, wire::KvStatus::kNotReady);
    ++partition_.counters().prepares;
    if (conditional) ++partition_.counters().conditional;
    // A repeated message gets the outcome: its locks ended with the first one.
    const bool locked = unlocking && !partition_.store().knows(timestamp);
    const Locked under = locked ? look_at_locks(committing) : Locked{};
    collect_items();
    const wire::KvStatus status = check_prepare(peer, header, locked, under);
    if (status != wire::KvStatus::kOk) return partition_.refuse_write(peer, header, status, timestamp);
    put_prepared(peer, header, locked, under);
}

wire::KvStatus Writes::check_prepare(const Peer& peer, const wire::KvHeader& header, bool locked,
                                     const Locked& under) {
    // A client must not end another client's locks.
    if (locked && Timestamp{prepare_.owner}.client() != peer.client_id) return wire::KvStatus::kNotLeased;
    // The lease of a lock may have ended. Whatever the clocks show, other clients may have written since.
    const Timestamp timestamp{prepare_.timestamp};
    wire::KvStatus status = wire::KvStatus::kLockConflict;
    if (!locked || under.held) status = check_timestamp(peer, header.kind, timestamp, under.in_bound);
    if (status == wire::KvStatus::kTooFarAhead && follows_versions(timestamp, writes_))
        status = check_timestamp(peer, header.kind, timestamp, true);
    for (const wire::KvPrepare::Item& item : prepare_.items)
        if (partition_.check_key(item.key) != wire::KvStatus::kOk) status = wire::KvStatus::kWrongPartition;
    for (const wire::KvPrepare::Condition& condition : prepare_.conditions)
        if (partition_.check_key(condition.key) != wire::KvStatus::kOk)
            status = wire::KvStatus::kWrongPartition;
    // The client does not repeat a refused write under the same locks.
    if (locked && status != wire::KvStatus::kOk) partition_.store().locks().unlock_all(prepare_.owner);
    return status;
}

void Writes::collect_items() {
    writes_.clear();
    for (const wire::KvPrepare::Item& item : prepare_.items)
        writes_.push_back(
            {.key = item.key, .value = item.value, .tombstone = item.is_deleted, .expires = {item.expires}});
    conditions_.clear();
    for (const wire::KvPrepare::Condition& condition : prepare_.conditions)
        conditions_.push_back({.key = condition.key, .expected = {condition.expected}});
}

void Writes::put_prepared(Peer& peer, const wire::KvHeader& header, bool locked, const Locked& under) {
    const bool conditional = (header.flags & wire::kKvPrepareIf) != 0;
    const bool committing = (header.flags & wire::kKvPrepareCommit) != 0;
    const std::vector<std::byte> participants = encode_participants(prepare_.participants);
    store::Transaction transaction{.timestamp = {prepare_.timestamp},
                                   .writes = writes_,
                                   .metadata = prepare_.metadata,
                                   .participants = participants,
                                   .alone = committing && prepare_.participants.size() <= 1,
                                   .locked = under.above_floor,
                                   .owner = locked ? prepare_.owner : 0,
                                   .in_order = !committing || locked || prepare_.participants.size() <= 1,
                                   .conditions = conditions_,
                                   .conditional = conditional};
    Pending& pending = expect(peer, header, {prepare_.timestamp});
    pending.committing = committing;
    pending.unlock = locked ? prepare_.owner : 0;
    pending.keys = writes_.size();
    store::Store& store = partition_.store();
    store::Continuation done{.run = &Writes::answered, .context = &pending};
    const store::Answer given = committing ? store.put(transaction, done) : store.prepare(transaction, done);
    if (given == store::Answer::kConflict) return refuse_condition(pending, transaction);
    if (given == store::Answer::kTooOld) pending.timestamp = store.newest(transaction);
    if (given != store::Answer::kPending) finish(pending, given);
}

// The transaction has left no trace. The reply has the failed condition and the current version.
void Writes::refuse_condition(Pending& pending, const store::Transaction& transaction) {
    const store::Store& store = partition_.store();
    const size_t failed = store.failed(transaction);
    const Timestamp present = store.present(transaction.conditions[failed].key, transaction.timestamp);
    pending.peer()->channel()->send(
        partition_.reply_to(pending.header(), wire::KvStatus::kConditionFailed),
        wire::KvFailedCondition{.timestamp = present.value, .index = static_cast<uint32_t>(failed)});
    pending_.give(pending);
}

void Writes::put_if(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    wire::KvPutIf put;
    if (!wire::parse(message, put))
        return partition_.refuse(peer, header, wire::KvStatus::kMalformed, "malformed conditional put");
    if (!access_.allows(peer, header, put)) return;
    ++partition_.counters().conditional;
    store::Write write{.key = put.item.key,
                       .value = put.item.value,
                       .tombstone = put.item.is_deleted,
                       .expires = {put.item.expires}};
    const Timestamp timestamp{put.timestamp};
    wire::KvStatus status = partition_.check_key(put.item.key);
    if (status == wire::KvStatus::kOk) status = check_timestamp(peer, header.kind, timestamp);
    if (status == wire::KvStatus::kTooFarAhead && follows_versions(timestamp, {&write, 1}))
        status = check_timestamp(peer, header.kind, timestamp, true);
    if (status != wire::KvStatus::kOk) return partition_.refuse_write(peer, header, status, timestamp);
    // The conflicting version. Its timestamp may be newer than the writer's clock; the next attempt then uses
    // a later one.
    store::Store& store = partition_.store();
    const store::Found latest = store.get(put.item.key, false);
    const Timestamp theirs =
        latest.presence == store::Presence::kExact ? latest.version.timestamp : Timestamp{};
    const store::Condition condition{.key = put.item.key, .expected = {put.expected}};
    store::Transaction transaction{.timestamp = timestamp,
                                   .writes = {&write, 1},
                                   .alone = true,
                                   .conditions = {&condition, 1},
                                   .conditional = true};
    Pending& pending = expect(peer, header, timestamp);
    pending.committing = true;
    pending.keys = 1;
    const store::Answer given = store.put(transaction, {.run = &Writes::answered, .context = &pending});
    if (given == store::Answer::kConflict) pending.timestamp = theirs;
    if (given == store::Answer::kTooOld) pending.timestamp = std::max(theirs, store.floor());
    if (given != store::Answer::kPending) finish(pending, given);
}

// --- decisions ---

bool Writes::is_prepared(Timestamp timestamp) const {
    for (const store::Overdue& one : partition_.store().overdue({0}, SIZE_MAX))
        if (one.timestamp.value == timestamp.value) return true;
    return false;
}

bool Writes::may_inquire_ahead(Timestamp timestamp) {
    while (!inquiries_ahead_.empty() && !partition_.is_beyond_bound(*inquiries_ahead_.begin()))
        inquiries_ahead_.erase(inquiries_ahead_.begin());
    if (inquiries_ahead_.size() < kInquiriesAheadMax) inquiries_ahead_.insert(timestamp);
    return inquiries_ahead_.contains(timestamp);
}

void Writes::decide(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    wire::KvDecision decision;
    if (!wire::parse(message, decision) || decision.timestamp == 0)
        return partition_.refuse(peer, header, wire::KvStatus::kMalformed, "malformed decision");
    Timestamp timestamp{decision.timestamp};
    const bool is_inquiry = header.kind == wire::KvKind::kInquire;
    if (!is_inquiry && !access_.allows(peer, header, decision)) return;
    wire::KvStatus status = check_timestamp(peer, header.kind, timestamp);
    // The other partition accepted the transaction while its clock was ahead. It waits for this answer.
    if (status == wire::KvStatus::kTooFarAhead && is_inquiry && may_inquire_ahead(timestamp))
        status = wire::KvStatus::kOk;
    if (status != wire::KvStatus::kOk) return partition_.refuse_write(peer, header, status, timestamp);
    if (is_inquiry && mutated(Mutation::kTerminationRace) && !is_prepared(timestamp))
        return partition_.answer(peer, header, wire::KvStatus::kAborted, timestamp.value);
    Pending& pending = expect(peer, header, timestamp);
    store::Continuation done{.run = &Writes::answered, .context = &pending};
    store::Store& store = partition_.store();
    ServiceCounters& counters = partition_.counters();
    store::Answer given;
    if (header.kind == wire::KvKind::kCommit) {
        ++counters.commits;
        pending.committing = true;
        given = store.commit(timestamp);
    } else if (is_inquiry) {
        ++counters.inquiries;
        given = store.inquire(timestamp, done);
    } else {
        ++counters.aborts;
        given = store.withdraw(timestamp, done);
    }
    if (given != store::Answer::kPending) finish(pending, given);
}

}  // namespace wss::kv
