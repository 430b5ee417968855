// SPDX-License-Identifier: Apache-2.0
// Prepare, commit, abort, inquire: implements rule S1 of store.h.
#include <algorithm>
#include <utility>

#include "lib/kv/mutation.h"
#include "lib/kv/store/parts.h"

namespace wss::kv::store {
namespace {

bool is_valid(const Write& write, Timestamp timestamp) {
    if (write.key.empty() || write.key.size() > kKeyMax || write.value.size() > kValueMax) return false;
    if (write.tombstone) return write.value.empty() && write.expires.is_none();
    return write.expires.is_none() || write.expires > timestamp;
}

bool is_valid(const Transaction& transaction) {
    if (transaction.timestamp.is_none() || (transaction.writes.empty() && transaction.conditions.empty()))
        return false;
    if (transaction.writes.size() > kWritesMax || transaction.conditions.size() > kConditionsMax ||
        transaction.metadata.size() > kMetadataMax || transaction.participants.size() > kParticipantsMax)
        return false;
    for (const Write& write : transaction.writes)
        if (!is_valid(write, transaction.timestamp)) return false;
    return std::all_of(transaction.conditions.begin(), transaction.conditions.end(),
                       [](const Condition& c) { return !c.key.empty() && c.key.size() <= kKeyMax; });
}

}  // namespace

Decision* Store::Parts::find(Timestamp timestamp) const {
    return decisions.find(timestamp.value, [](const Decision&) { return true; });
}

void Store::Parts::set_floor(Timestamp to) {
    floor = to;
    if (locks != nullptr) locks->raise_floor(to);
}

// With Durability::kMemory the log has only copies of values.
bool Store::Parts::cannot_log() const {
    return log_failed && options.durability != Durability::kMemory;
}

bool Store::Parts::must_wait_for_log() const {
    return options.durability != Durability::kMemory && log->is_congested();
}

Decision& Store::Parts::create(Timestamp timestamp, DecisionState state) {
    Decision& decision = *pool.take();
    decision.hash = timestamp.value;
    decision.timestamp = timestamp;
    decision.put = decision.early = decision.logging = decision.promised = decision.failed = false;
    decision.deferred = false;
    decision.ticket = 0;
    decision.versions = nullptr;
    decision.held.clear();
    decision.participants.clear();
    decision.waiting.clear();
    decision.state = state;
    decision.since = clock.now();
    decisions.insert(&decision);
    const bool open = state == DecisionState::kPreparing || state == DecisionState::kPrepared;
    (open ? undecided : decided).push_back(decision);
    if (open) undecided_count++;
    return decision;
}

void Store::Parts::decide_abort(Decision& decision) {
    decision.unlink();
    leave_undecided(decision);
    decision.state = DecisionState::kAborted;
    decision.since = clock.now();
    decision.participants.clear();
    decided.push_back(decision);
}

void Store::Parts::leave_undecided(Decision& decision) {
    undecided_count--;
    if (std::exchange(decision.deferred, false)) deferred_count--;
}

void Store::Parts::drop(Decision& decision) {
    if (decision.state == DecisionState::kPreparing || decision.state == DecisionState::kPrepared)
        leave_undecided(decision);
    decision.unlink();
    decisions.erase(&decision);
    pool.give(&decision);
}

Answer Store::Parts::wait(Decision& decision, Continuation done) {
    if (done.run != nullptr) decision.waiting.push_back(done);
    return Answer::kPending;
}

void Store::Parts::answer_waiting(Decision& decision, Answer answer) {
    // A continuation may call the store, which may add to `waiting`.
    std::vector<Continuation> all;
    all.swap(decision.waiting);
    for (Continuation done : all) done.run(done.context, answer);
}

Answer Store::Parts::prepare(const Transaction& transaction, bool put, Continuation done) {
    if (!is_valid(transaction)) return Answer::kInvalid;
    Decision* decision = find(transaction.timestamp);
    const bool early = decision != nullptr && decision->early && decision->state == DecisionState::kCommitted;
    if (decision != nullptr && !early) return repeat(*decision, put, done);
    if (cannot_log()) return Answer::kIo;
    if (decision == nullptr) {
        if (finished.has(transaction.timestamp) || is_committed_already(transaction)) return Answer::kOk;
        if (transaction.timestamp <= floor && !transaction.locked) {
            counts.refused_old++;
            return Answer::kTooOld;
        }
        // Deferred transactions have a limit of their own, of the same size.
        if (undecided_count - deferred_count >= options.prepared_max ||
            undecided_count / 2 >= options.prepared_max || must_wait_for_log())
            return Answer::kBusy;
        if (!has_room_to_finish(kind_of(put, transaction.participants.size()))) return Answer::kBusy;
    }
    // A transaction that is already committed elsewhere is no longer refused.
    if (!early && is_locked_out(transaction)) return Answer::kBusy;
    Answer answer = early ? Answer::kOk : check_conditions(transaction);
    if (answer == Answer::kOk) answer = check_writes(transaction, early);
    if (answer != Answer::kOk) {
        if (answer == Answer::kConflict) counts.conflicts++;
        if (answer == Answer::kTooOld) counts.refused_old++;
        return answer;
    }
    if (early) drop(*decision);
    decision = &create(transaction.timestamp, DecisionState::kPreparing);
    decision->early = early;
    decision->put = put;
    if (answer = insert(transaction, *decision); answer != Answer::kOk) {
        drop(*decision);
        // An early commit stays remembered although its prepare is refused now.
        if (early) create(transaction.timestamp, DecisionState::kCommitted).early = true;
        return answer;
    }
    counts.prepares++;
    return log_prepare(*decision, done);
}

Answer Store::Parts::repeat(Decision& decision, bool put, Continuation done) {
    switch (decision.state) {
        case DecisionState::kPreparing:
            return wait(decision, done);
        case DecisionState::kPrepared:
            if (put) commit_now(decision);
            return Answer::kOk;
        case DecisionState::kCommitted:
            return Answer::kOk;
        case DecisionState::kAborted:
            return aborted(decision, done);
    }
    return Answer::kInvalid;
}

// After a restart, or once its decision is forgotten, a put is known only by its versions.
bool Store::Parts::is_committed_already(const Transaction& transaction) const {
    if (transaction.writes.empty()) return false;
    const Item* item = table.find(transaction.writes.front().key);
    const Version* version = item != nullptr ? table.find(*item, transaction.timestamp) : nullptr;
    return version != nullptr && version->state == VersionState::kCommitted;
}

// The newest version of which a client may have been notified that it is written. A restart may have lost the
// commit of a prepared version: its transaction counts as promised (recovery.cc).
Timestamp Store::Parts::acknowledged(const Item& item) const {
    for (const Version* at = item.newest; at != nullptr && at != item.latest; at = at->older) {
        if (at->state != VersionState::kPrepared) continue;
        const Decision* decision = find(at->timestamp);
        if (decision != nullptr && decision->promised) return at->timestamp;
    }
    return item.latest != nullptr ? item.latest->timestamp : kNoTimestamp;
}

Timestamp Store::Parts::newest_of(const Transaction& transaction) const {
    Timestamp latest;
    const auto look = [&](std::string_view key) {
        if (const Item* item = table.find(key)) latest = std::max(latest, acknowledged(*item));
    };
    for (const Write& write : transaction.writes) look(write.key);
    for (const Condition& condition : transaction.conditions) look(condition.key);
    return latest;
}

Answer Store::Parts::check_writes(const Transaction& transaction, bool early) const {
    const bool in_order = transaction.in_order && !early && !mutated(Mutation::kBlindOrder);
    for (const Write& write : transaction.writes) {
        const Item* item = table.find(write.key);
        if (item == nullptr) continue;
        if (item->held > 0) return Answer::kBusy;
        if (transaction.conditional && !early && is_undecided(*item)) return Answer::kBusy;
        if (in_order && acknowledged(*item) > transaction.timestamp) return Answer::kTooOld;
    }
    return Answer::kOk;
}

Version* Store::Parts::add_version(Item& item, const RecordView& record) {
    if (is_heap_full(makes_room(item, record.tombstone)) && !relieve()) return nullptr;
    if (Version* version = table.add(item, record)) return version;
    return relieve() ? table.add(item, record) : nullptr;
}

bool Store::Parts::is_locked_out(const Transaction& transaction) const {
    if (locks == nullptr || locks->held() == 0) return false;
    return std::any_of(transaction.writes.begin(), transaction.writes.end(),
                       [&](const Write& write) { return locks->excludes(write.key, transaction.owner); }) ||
           std::any_of(transaction.conditions.begin(), transaction.conditions.end(),
                       [&](const Condition& condition) {
                           return locks->is_exclusive(condition.key) &&
                                  locks->excludes(condition.key, transaction.owner);
                       });
}

// Only versions newer than the latest matter: an older one is never read as the latest.
bool Store::Parts::is_undecided(const Item& item) {
    for (const Version* at = item.newest; at != nullptr && at != item.latest; at = at->older)
        if (at->state != VersionState::kCommitted) return true;
    return false;
}

bool Store::Parts::is_undecided(std::string_view key) const {
    const Item* item = table.find(key);
    return item != nullptr && (item->held > 0 || is_undecided(*item));
}

Answer Store::Parts::insert(const Transaction& transaction, Decision& decision) {
    decision.participants.assign(reinterpret_cast<const char*>(transaction.participants.data()),
                                 transaction.participants.size());
    for (const Write& write : transaction.writes) {
        Item& item = table.find_or_create(write.key);
        const bool twice = table.find(item, transaction.timestamp) != nullptr;
        const RecordView record{.key = write.key,
                                .metadata = transaction.metadata,
                                .value = write.value,
                                .timestamp = transaction.timestamp,
                                .expires = write.expires,
                                .tombstone = write.tombstone};
        Version* version = twice ? nullptr : add_version(item, record);
        if (version == nullptr) {
            table.erase_if_empty(item);
            remove_versions(decision);
            if (!twice) counts.refused_memory++;
            return twice ? Answer::kInvalid : Answer::kNoMemory;
        }
        version->alone = transaction.alone;
        version->sibling = decision.versions;
        decision.versions = version;
    }
    if (hold_all(transaction, decision)) return Answer::kOk;
    remove_versions(decision);
    counts.refused_memory++;
    return Answer::kNoMemory;
}

void Store::Parts::remove_versions(Decision& decision) {
    while (Version* version = decision.versions) {
        decision.versions = version->sibling;
        Item& item = *version->item;
        table.erase(*version);
        if (locks != nullptr) locks->decided(item.key);
        if (item.newest == nullptr)
            table.erase_if_empty(item);
        else
            table.publish(item);
    }
    release(decision);
}

Answer Store::Parts::log_prepare(Decision& decision, Continuation done) {
    if (options.durability == Durability::kMemory) {
        durable(decision);
        return Answer::kOk;
    }
    LogBatch batch;
    LoggedTransaction row{.timestamp = decision.timestamp, .participants = decision.participants};
    for (Version* version = decision.versions; version != nullptr; version = version->sibling) {
        batch.put_version(version->item->key, version->timestamp, table.record(*version));
        version->logged = true;
    }
    for (const Item* item : decision.held) row.held.push_back(item->key);
    if (decision.put) row = {.timestamp = decision.timestamp, .state = LoggedState::kCommitted};
    batch.put_transaction(row);
    decision.ticket = append(std::move(batch), decision.timestamp);
    if (options.durability == Durability::kAsync) {
        durable(decision);
        return Answer::kOk;
    }
    decision.logging = true;
    return wait(decision, done);
}

// From here on others may see the transaction (S2).
void Store::Parts::durable(Decision& decision) {
    decision.logging = false;
    decision.state = DecisionState::kPrepared;
    const bool commits = decision.put || decision.early;
    for (Version* version = decision.versions; version != nullptr; version = version->sibling) {
        table.set_prepared(*version);
        if (!commits) table.publish(*version->item);
    }
    if (commits) commit_now(decision);
}

// Destroys the decision; `finished` then has its timestamp.
void Store::Parts::commit_now(Decision& decision) {
    const Nanoseconds now = clock.now();
    release(decision);
    size_t written = 0;
    for (Version* version = decision.versions; version != nullptr; written++) {
        Version* next = version->sibling;
        if (!table.commit(*version, now)) counts.commits_lost++;
        table.publish(*version->item);
        if (locks != nullptr) locks->decided(version->item->key);
        version = next;
    }
    decision.versions = nullptr;
    counts.commits++;
    const Timestamp timestamp = decision.timestamp;
    const bool is_logged = decision.put;
    finished.add(timestamp, now, kind_of(decision.put, decision.participants.size()));
    drop(decision);
    recycle(written, now);
    if (options.durability != Durability::kMemory && !is_logged) {
        LogBatch batch;
        batch.put_transaction({.timestamp = timestamp, .state = LoggedState::kCommitted});
        append(std::move(batch), kNoTimestamp);
    }
    // Last, because lock waiters call the store.
    if (locks != nullptr) locks->notify();
}

Answer Store::Parts::commit(Timestamp timestamp) {
    if (timestamp.is_none()) return Answer::kInvalid;
    Decision* decision = find(timestamp);
    if (decision == nullptr) {
        if (finished.has(timestamp)) return Answer::kOk;
        if (timestamp <= floor) return Answer::kTooOld;
        if (!may_remember_unknown()) return Answer::kBusy;
        create(timestamp, DecisionState::kCommitted).early = true;
        return Answer::kUnknown;
    }
    switch (decision->state) {
        case DecisionState::kPreparing:
            return Answer::kBusy;
        case DecisionState::kPrepared:
            commit_now(*decision);
            return Answer::kOk;
        case DecisionState::kCommitted:
            return Answer::kUnknown;
        case DecisionState::kAborted:
            return Answer::kAborted;
    }
    return Answer::kInvalid;
}

// Records the abort. It is answered when it is as durable as a prepare would be.
Answer Store::Parts::abort_now(Decision& decision, Continuation done) {
    counts.aborts++;
    decision.logging = false;
    if (options.durability == Durability::kMemory) {
        remove_versions(decision);
        return Answer::kAborted;
    }
    LogBatch batch;
    for (Version* version = decision.versions; version != nullptr; version = version->sibling)
        batch.remove_version(version->item->key, version->timestamp);
    batch.put_transaction({.timestamp = decision.timestamp, .state = LoggedState::kAborted});
    remove_versions(decision);
    decision.ticket = append(std::move(batch), decision.timestamp);
    if (options.durability == Durability::kAsync) return Answer::kAborted;
    decision.logging = true;
    return wait(decision, done);
}

// Returned only for a recorded abort, because others rely on it.
Answer Store::Parts::aborted(Decision& decision, Continuation done) {
    if (decision.logging) return wait(decision, done);
    return decision.failed ? Answer::kIo : Answer::kAborted;
}

// A decision about an unknown transaction takes memory and a row of the log, so it needs room like a prepare.
// Inquiries do not: other partitions wait for their answers, also while this store is full.
bool Store::Parts::may_remember_unknown() {
    if (decisions.size() - undecided_count >= kDecisionsMax) return false;
    return !must_wait_for_log() && (!is_heap_full() || relieve());
}

Answer Store::Parts::abort_unknown(Timestamp timestamp, Continuation done) {
    if (cannot_log()) return Answer::kIo;
    if (decisions.size() - undecided_count >= kDecisionsMax) return Answer::kBusy;
    return abort_now(create(timestamp, DecisionState::kAborted), done);
}

Answer Store::Parts::abort(Timestamp timestamp, Continuation done) {
    if (timestamp.is_none()) return Answer::kInvalid;
    Decision* decision = find(timestamp);
    if (decision == nullptr) {
        if (finished.has(timestamp)) return Answer::kCommitted;
        if (timestamp <= floor || is_forgotten_ahead(timestamp)) return Answer::kTooOld;
        if (!cannot_log() && !may_remember_unknown()) return Answer::kBusy;
        return abort_unknown(timestamp, done);
    }
    switch (decision->state) {
        case DecisionState::kPreparing:
        case DecisionState::kPrepared:
            if (cannot_log()) return Answer::kIo;
            decide_abort(*decision);
            return abort_now(*decision, done);
        case DecisionState::kCommitted:
            return Answer::kCommitted;
        case DecisionState::kAborted:
            return aborted(*decision, done);
    }
    return Answer::kInvalid;
}

// A participant that got "prepared" may have committed since.
Answer Store::Parts::withdraw(Timestamp timestamp, Continuation done) {
    const Decision* decision = find(timestamp);
    if (decision != nullptr && decision->state == DecisionState::kPrepared && decision->promised)
        return Answer::kPrepared;
    return abort(timestamp, done);
}

bool Store::Parts::is_recent(Timestamp timestamp) const {
    return timestamp.ticks() + kRowsSurely_ticks > latest_now.ticks() && !latest_now.is_none();
}

Answer Store::Parts::inquire(Timestamp timestamp, Continuation done) {
    Decision* decision = find(timestamp);
    if (decision != nullptr) {
        switch (decision->state) {
            case DecisionState::kPreparing:
                return Answer::kBusy;
            case DecisionState::kPrepared:
                decision->promised = true;
                return Answer::kPrepared;
            case DecisionState::kCommitted:
                return Answer::kCommitted;
            case DecisionState::kAborted:
                return aborted(*decision, done);
        }
    }
    if (finished.has(timestamp)) return Answer::kCommitted;
    if (mutated(Mutation::kTerminationRace)) return Answer::kAborted;  // a later prepare succeeds
    if (timestamp > floor && !is_forgotten_ahead(timestamp)) return abort_unknown(timestamp, done);
    LoggedTransaction row;
    if (cannot_log()) return Answer::kIo;  // the floor cannot be written either
    if (log == nullptr || options.durability == Durability::kMemory) {
        // The floor does not refuse a later prepare; the recorded abort does.
        const Answer given = timestamp > floor ? abort_unknown(timestamp, done) : Answer::kTooOld;
        return given == Answer::kAborted ? Answer::kTooOld : given;
    }
    Result<bool> found = log->find_transaction(timestamp, row);
    if (!found) return Answer::kIo;  // the inquiry will be repeated
    // The log keeps rows for a day, and has none for this transaction. The floor refuses a later prepare.
    if (!*found && timestamp > floor) return abort_unknown(timestamp, done);
    if (!*found) return is_recent(timestamp) ? Answer::kAborted : Answer::kTooOld;
    return row.state == LoggedState::kAborted ? Answer::kAborted : Answer::kCommitted;
}

}  // namespace wss::kv::store
