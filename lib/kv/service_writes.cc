// SPDX-License-Identifier: Apache-2.0
// What a partition answers to writers: prepares, decisions, conditional puts, locks.
#include <algorithm>
#include <bitset>

#include "lib/kv/metadata.h"
#include "lib/kv/placement.h"
#include "lib/kv/service_peer.h"

namespace wss::kv {

wire::KvStatus Service::check_key(std::string_view key) const {
    const auto count = static_cast<uint32_t>(options_.partitions.size());
    return partition_of(fingerprint(key), count) == options_.partition ? wire::KvStatus::kOk
                                                                       : wire::KvStatus::kWrongPartition;
}

Timestamp Service::clock_stamp() {
    return Timestamp::make(clock_.now_ticks(), 0);
}

// The one bound of what peers name: a later timestamp leaves no trace. What is known here was within it once.
// It begins at the floor where the clock is behind it, as after a step back: what must pass the floor can.
// `lead`: so much of the bound is to stay free.
bool Service::is_too_far_ahead(Timestamp timestamp, uint64_t lead) {
    const uint64_t now = std::max(clock_.now_ticks(), store_->floor().ticks());
    if (timestamp.ticks() <= now) return false;
    const uint64_t ahead = timestamp.ticks() - now;
    counters_.ahead_max_us = std::max(counters_.ahead_max_us, ahead);
    return ahead + lead > static_cast<uint64_t>(options_.ahead_max.count / 1000) && !store_->knows(timestamp);
}

wire::KvStatus Service::check_timestamp(const Peer& peer, wire::KvKind kind, Timestamp timestamp) {
    // Other partitions inquire; who writes and decides is the owner of the client id.
    if (kind != wire::KvKind::kCheck && timestamp.client() != peer.client_id &&
        !mutated(Mutation::kCollidingTimestamps))
        return wire::KvStatus::kNotLeased;
    if (is_too_far_ahead(timestamp)) return wire::KvStatus::kTooFarAhead;
    if (kind != wire::KvKind::kPrepare && kind != wire::KvKind::kPutIf) return wire::KvStatus::kOk;
    if (is_of_former_client(peer, timestamp)) return wire::KvStatus::kTooOld;
    peer.lease->last = std::max(peer.lease->last, timestamp);
    return wire::KvStatus::kOk;
}

// Of the client that had this id before.
bool Service::is_of_former_client(const Peer& peer, Timestamp timestamp) const {
    return timestamp <= peer.lease->after;
}

// Says what the client's clock must pass, or how far it is behind.
void Service::refuse_write(Peer& peer, const wire::KvHeader& header, wire::KvStatus status) {
    Timestamp named = store_->floor();
    if (status == wire::KvStatus::kTooOld) named = std::max(named, peer.lease->after);
    if (status == wire::KvStatus::kTooFarAhead) named = clock_stamp();
    answer(peer, header, status, named.value);
}

wire::KvStatus Service::status_of(wire::KvKind kind, bool committing, store::Answer answer) const {
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
            // A decision is simply repeated; a write takes a later timestamp.
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

void Service::write_answered(void* context, store::Answer answer) noexcept {
    Pending& pending = *static_cast<Pending*>(context);
    pending.service->finish_write(pending, answer);
}

void Service::finish_write(Pending& pending, store::Answer given) {
    const wire::KvStatus status = status_of(pending.header.kind, pending.committing, given);
    if (pending.unlock != 0) store_->locks().unlock_all(pending.unlock);
    if (pending.peer != nullptr) {
        Timestamp timestamp = pending.timestamp;
        if (status == wire::KvStatus::kTooOld) timestamp = std::max(timestamp, store_->floor());
        // What is in the way is named exactly: a clock that is ahead of it would pass for a version.
        const bool is_in_the_way =
            status == wire::KvStatus::kConditionFailed || status == wire::KvStatus::kTooOld;
        if (!is_in_the_way) timestamp = std::max(timestamp, clock_stamp());
        answer(*pending.peer, pending.header, status, timestamp.value);
        note_time(pending.header.kind, *pending.peer, pending.keys, pending.since);
    }
    drop(pending);
}

// --- prepare ---

// Whoever is not there can never be asked: the transaction would stay undecided for ever. One that repeats
// would cost an inquiry each time.
bool Service::are_distinct_partitions(std::span<const uint16_t> participants) const {
    std::bitset<kPartitionsMax> seen;
    for (uint16_t participant : participants) {
        if (participant >= options_.partitions.size() || seen.test(participant)) return false;
        seen.set(participant);
    }
    return true;
}

void Service::prepare(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    if (!wire::parse(message, prepare_))
        return refuse(peer, header, wire::KvStatus::kMalformed, "malformed prepare");
    if (!are_distinct_partitions(prepare_.participants))
        return refuse(peer, header, wire::KvStatus::kMalformed,
                      "a participant that is no partition or repeats");
    if (waits_in_vain(prepare_.participants) && !store_->knows({prepare_.timestamp}))
        return answer(peer, header, wire::KvStatus::kNotReady);
    ++counters_.prepares;
    writes_.clear();
    // What was done once is only to be told again: its locks went with it.
    const bool locked = (header.flags & wire::kKvPrepareUnlock) != 0 && !store_->knows({prepare_.timestamp});
    wire::KvStatus leased = check_timestamp(peer, header.kind, {prepare_.timestamp});
    // Nobody ends the locks of others.
    if (locked && Timestamp{prepare_.owner}.client() != peer.client_id) leased = wire::KvStatus::kNotLeased;
    for (const wire::KvPrepare::Item& item : prepare_.items) {
        wire::KvStatus status = check_key(item.key);
        if (status == wire::KvStatus::kOk) status = leased;
        // The lease of a lock may have ended.
        if (status == wire::KvStatus::kOk && locked &&
            !store_->locks().holds(item.key, prepare_.owner, store::LockMode::kExclusive))
            status = wire::KvStatus::kLockConflict;
        if (status != wire::KvStatus::kOk) {
            // Its writer does not come again.
            if (locked && leased == wire::KvStatus::kOk) store_->locks().unlock_all(prepare_.owner);
            return refuse_write(peer, header, status);
        }
        writes_.push_back(
            {.key = item.key, .value = item.value, .tombstone = item.is_deleted, .expires = {item.expires}});
    }
    const bool committing = (header.flags & wire::kKvPrepareCommit) != 0;
    std::vector<std::byte> participants = encode_participants(prepare_.participants);
    store::Transaction transaction{.timestamp = {prepare_.timestamp},
                                   .writes = writes_,
                                   .metadata = prepare_.metadata,
                                   .participants = participants,
                                   .alone = committing && prepare_.participants.size() <= 1,
                                   .in_order = !committing || locked || prepare_.participants.size() <= 1};
    Pending& pending = expect(peer, header, {prepare_.timestamp});
    pending.committing = committing;
    pending.unlock = locked ? prepare_.owner : 0;
    pending.keys = static_cast<uint32_t>(writes_.size());
    store::Continuation done{.run = &Service::write_answered, .context = &pending};
    store::Answer given =
        pending.committing ? store_->put(transaction, done) : store_->prepare(transaction, done);
    if (given == store::Answer::kTooOld) pending.timestamp = store_->newest(writes_);
    if (given != store::Answer::kPending) finish_write(pending, given);
}

void Service::put_if(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    wire::KvPutIf put;
    if (!wire::parse(message, put))
        return refuse(peer, header, wire::KvStatus::kMalformed, "malformed conditional put");
    ++counters_.conditional;
    wire::KvStatus status = check_key(put.item.key);
    if (status == wire::KvStatus::kOk) status = check_timestamp(peer, header.kind, {put.timestamp});
    if (status != wire::KvStatus::kOk) return refuse_write(peer, header, status);
    // What is in the way; with what is newer than the writer's clock its next timestamp is later.
    const store::Found latest = store_->get(put.item.key, false);
    const Timestamp theirs =
        latest.presence == store::Presence::kExact ? latest.version.timestamp : Timestamp{};
    store::Write write{
        .key = put.item.key,
        .value = put.item.value,
        .tombstone = put.item.is_deleted,
        .expires = {put.item.expires},
        .condition = put.expected == 0 ? store::Condition::kIfAbsent : store::Condition::kIfTimestamp,
        .expected = {put.expected}};
    store::Transaction transaction{.timestamp = {put.timestamp}, .writes = {&write, 1}, .alone = true};
    Pending& pending = expect(peer, header, {put.timestamp});
    pending.committing = true;
    pending.keys = 1;
    store::Answer given = store_->put(transaction, {.run = &Service::write_answered, .context = &pending});
    if (given == store::Answer::kConflict) pending.timestamp = theirs;
    if (given == store::Answer::kTooOld) pending.timestamp = std::max(theirs, store_->floor());
    if (given != store::Answer::kPending) finish_write(pending, given);
}

// --- decisions ---

bool Service::is_prepared(Timestamp timestamp) const {
    for (const store::Overdue& one : store_->overdue({0}, SIZE_MAX))
        if (one.timestamp.value == timestamp.value) return true;
    return false;
}

void Service::decide(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    wire::KvDecision decision;
    if (!wire::parse(message, decision) || decision.timestamp == 0)
        return refuse(peer, header, wire::KvStatus::kMalformed, "malformed decision");
    Timestamp timestamp{decision.timestamp};
    const bool is_check = header.kind == wire::KvKind::kCheck;
    if (wire::KvStatus status = check_timestamp(peer, header.kind, timestamp); status != wire::KvStatus::kOk)
        return refuse_write(peer, header, status);
    if (is_check && mutated(Mutation::kTerminationRace) && !is_prepared(timestamp))
        return answer(peer, header, wire::KvStatus::kAborted, timestamp.value);
    Pending& pending = expect(peer, header, timestamp);
    store::Continuation done{.run = &Service::write_answered, .context = &pending};
    store::Answer given;
    if (header.kind == wire::KvKind::kCommit) {
        ++counters_.commits;
        pending.committing = true;
        given = store_->commit(timestamp);
    } else if (is_check) {
        ++counters_.checks;
        given = store_->inquire(timestamp, done);
    } else {
        ++counters_.aborts;
        given = store_->withdraw(timestamp, done);
    }
    if (given != store::Answer::kPending) finish_write(pending, given);
}

// --- locks ---

// What a write of these keys must be later than. Neither the clock nor versions of other keys: where they are
// ahead, another partition that is written to would refuse what follows them, after this one took it. While
// the locks are held the floor may rise, but not beyond the clock.
Timestamp Service::newest_of_locked(const Peer& peer, std::span<const std::string_view> keys) {
    writes_.clear();
    for (std::string_view key : keys) writes_.push_back({.key = key});
    const Timestamp floor = store_->floor();
    const Timestamp newest = std::max({store_->newest(writes_), peer.lease->after, floor});
    if (floor.is_none()) return newest;
    return std::max(newest, std::min(Timestamp::make(floor.ticks() + kLockedLead_ticks, 0), clock_stamp()));
}

void Service::lock_answered(void* context, store::LockAnswer answer) noexcept {
    Pending& pending = *static_cast<Pending*>(context);
    Service& service = *pending.service;
    bool granted = answer == store::LockAnswer::kGranted;
    const std::string_view key = pending.key;
    if (pending.peer != nullptr)
        service.answer(*pending.peer, pending.header,
                       granted ? wire::KvStatus::kOk : wire::KvStatus::kLockConflict,
                       service.newest_of_locked(*pending.peer, {&key, 1}).value);
    else if (granted)
        service.store_->locks().unlock_all(pending.timestamp.value);  // its client is gone
    service.drop(pending);
}

void Service::lock(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    // Waiting for several at once could deadlock with another who does.
    if (!wire::parse(message, lock_) || lock_.keys.empty() || (lock_.wait && lock_.keys.size() > 1))
        return refuse(peer, header, wire::KvStatus::kMalformed, "malformed lock");
    if (Timestamp{lock_.owner}.client() != peer.client_id)
        return answer(peer, header, wire::KvStatus::kNotLeased);
    if (lock_.exclusive && is_too_far_ahead({lock_.owner}, kLockedLead_ticks))
        return refuse_write(peer, header, wire::KvStatus::kTooFarAhead);
    for (std::string_view key : lock_.keys) {
        ++counters_.locks;
        store::LockRequest request{
            .key = key,
            .owner = lock_.owner,
            .mode = lock_.exclusive ? store::LockMode::kExclusive : store::LockMode::kShared,
            .wait = lock_.wait};
        Pending& pending = expect(peer, header, {lock_.owner});
        store::LockAnswer given =
            store_->locks().lock(request, {.run = &Service::lock_answered, .context = &pending});
        if (given == store::LockAnswer::kWaiting) {
            pending.key = key;
            return;
        }
        drop(pending);
        if (given == store::LockAnswer::kGranted) continue;
        store_->locks().unlock_all(lock_.owner);
        return answer(
            peer, header,
            given == store::LockAnswer::kFull ? wire::KvStatus::kNoMemory : wire::KvStatus::kLockConflict);
    }
    answer(peer, header, wire::KvStatus::kOk, newest_of_locked(peer, lock_.keys).value);
}

void Service::unlock(Peer& peer, wire::Bytes message) {
    if (!wire::parse(message, lock_)) return peer.channel()->close("malformed unlock");
    if (Timestamp{lock_.owner}.client() == peer.client_id) store_->locks().unlock_all(lock_.owner);
}

}  // namespace wss::kv
