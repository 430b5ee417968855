// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/put_job.h"

#include <algorithm>

#include "lib/kv/metadata.h"

namespace wss::kv {

namespace {

constexpr Nanoseconds kRetryAfterLoss = from_ms(10);
constexpr uint32_t kLockBackoff_us = 50;
constexpr std::string_view kLockedOut =
    "another transaction locks a key of this write, or a partition has too many undecided writes";
// Limits the doublings of the wait before another attempt: up to 6 ms, or up to 51 ms if a lock may end only
// with its lease.
constexpr uint32_t kRestartDoublings = 7, kLockedOutDoublings = 10;

wire::Bytes bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

// The client lacks a right: no later timestamp helps.
bool is_denial(const Status& status) {
    return status.code() == Code::kPermission;
}

bool is_locking(Algorithm algorithm) {
    return algorithm == Algorithm::kLockSequential || algorithm == Algorithm::kLockParallel;
}

Status status_of(wire::KvStatus status) {
    switch (status) {
        case wire::KvStatus::kNoMemory:
            return Status(Code::kExhausted,
                          "a partition's memory is full: writes are refused, reads continue");
        case wire::KvStatus::kAborted:
            return Status(Code::kRefused,
                          "a partition waited too long for this client, and aborted the transaction");
        case wire::KvStatus::kIo:
            return Status(
                Code::kIo,
                "a partition cannot write its log, and refuses writes until it is restarted: see its "
                "program's log");
        case wire::KvStatus::kWrongPartition:
            return Status(Code::kInvalid,
                          "the partitions disagree about which partition holds a key: check the addresses "
                          "and their order");
        case wire::KvStatus::kLockConflict:
            return Status(Code::kUnavailable, std::string(kLockedOut));
        case wire::KvStatus::kNotLeased:
            return Status(Code::kUnavailable,
                          "a restarted partition has leased the id of this client to another client");
        default:
            return failure(Code::kUnavailable, "a partition answered: {}", wire::to_string(status));
    }
}

}  // namespace

// With Algorithm::kNone several partitions write at once and independently; nothing is rolled back.
bool PutJob::one_message() const {
    return part_count_ == 1 ||
           (session_.options().algorithm == Algorithm::kNone && request_->conditions.empty());
}

// Keys prepared with conditions are held as if locked.
bool PutJob::takes_locks() const {
    return is_locking(session_.options().algorithm) && request_->conditions.empty();
}

bool PutJob::skips(uint64_t mask, const Part& part) const {
    return part.call.index < 64 && (mask >> part.call.index & 1) != 0;
}

void PutJob::begin(Request& request) noexcept {
    base_ = &request;
    request_ = static_cast<PutAll*>(&request);
    request_->outcome_unknown = request_->is_over = false;
    request_->failed_condition.reset();
    request_->timestamp = request_->present = past_ = {};
    conflicts_ = 0;
    is_locked_out_ = false;
    if (Status status = check_items(); !status) return end(std::move(status));
    if (request_->items.empty() && request_->conditions.empty()) return end(Status::ok());
    if (Status status = prepare_items(); !status) return end(std::move(status));
    start_transaction();
}

Status PutJob::check_items() const {
    if (request_->items.size() > kItemsMax)
        return failure(Code::kInvalid, "{} keys in one transaction: at most {} are allowed",
                       request_->items.size(), kItemsMax);
    if (request_->ttl_ms > kTtlMax_ms)
        return failure(Code::kInvalid, "a time to live of {} ms: at most {} ms are allowed", request_->ttl_ms,
                       kTtlMax_ms);
    if (request_->conditions.size() > kItemsMax)
        return failure(Code::kInvalid, "{} conditions on one transaction: at most {} are allowed",
                       request_->conditions.size(), kItemsMax);
    WSS_TRY(check_keys());
    uint64_t bytes = 0;
    for (const PutAll::Condition& condition : request_->conditions) bytes += condition.key.size();
    for (const PutAll::Item& item : request_->items) {
        if (item.value.size() > kValueMax)
            return failure(Code::kInvalid, "a value of {} bytes: at most {} are allowed", item.value.size(),
                           kValueMax);
        bytes += item.key.size() + (item.remove ? 0 : item.value.size());
    }
    if (bytes > kTransactionBytesMax)
        return failure(Code::kInvalid, "a transaction of {} bytes: at most {} are allowed", bytes,
                       kTransactionBytesMax);
    return Status::ok();
}

Status PutJob::check_keys() const {
    const auto check = [](const std::string& key) {
        if (!key.empty() && key.size() <= kKeyMax) return Status::ok();
        return failure(Code::kInvalid, "a key of {} bytes: between 1 and {} are allowed", key.size(),
                       kKeyMax);
    };
    for (const PutAll::Item& item : request_->items) WSS_TRY(check(item.key));
    for (const PutAll::Condition& condition : request_->conditions) WSS_TRY(check(condition.key));
    return Status::ok();
}

PutJob::Part& PutJob::part_of(uint64_t print) {
    const uint32_t partition = partition_of(print, session_.partitions());
    size_t at = 0;
    while (at < part_count_ && parts_[at]->partition != partition) ++at;
    if (at < part_count_) return *parts_[at];
    if (parts_.size() == at) parts_.push_back(std::make_unique<Part>());
    Part& part = *parts_[part_count_++];
    part.partition = partition;
    part.items.clear();
    part.conditions.clear();
    part.call.done = &PutJob::on_reply;
    part.call.context = this;
    part.call.index = static_cast<uint32_t>(at);
    participants_.push_back(static_cast<uint16_t>(partition));
    return part;
}

Status PutJob::prepare_items() {
    fingerprints_.clear();
    participants_.clear();
    part_count_ = 0;
    for (uint32_t i = 0; i < request_->items.size(); ++i) {
        fingerprints_.push_back(fingerprint(request_->items[i].key));
        part_of(fingerprints_.back()).items.push_back(i);
    }
    std::vector<uint64_t> sorted;
    for (uint32_t i = 0; i < request_->conditions.size(); ++i) {
        sorted.push_back(fingerprint(request_->conditions[i].key));
        part_of(sorted.back()).conditions.push_back(i);
    }
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        return Status(Code::kInvalid, "a transaction has two conditions on one key");
    // Writes under locks need metadata, too: readers without locks must see them as a whole.
    const Algorithm algorithm = session_.options().algorithm;
    if (algorithm == Algorithm::kRampHybrid)
        encode_bloom(fingerprints_, metadata_);
    else if (algorithm == Algorithm::kRampFast || is_locking(algorithm))
        encode_keys(fingerprints_, metadata_);
    else
        metadata_.clear();
    sorted = fingerprints_;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        return Status(Code::kInvalid, "a key is written twice in one transaction");
    return Status::ok();
}

bool PutJob::reaches_all() {
    bool all = session_.has_id();  // link() starts missing connections, all at once
    for (size_t p = 0; p < part_count_; ++p) all = session_.link(parts_[p]->partition).ready() && all;
    return all;
}

// Returns false if a partition does not support conditions; the write has then ended. All its partitions are
// connected, so their capabilities are known.
bool PutJob::know_conditions() {
    for (size_t p = 0; p < part_count_ && !request_->conditions.empty(); ++p) {
        Link& link = session_.link(parts_[p]->partition);
        if (link.facts().knows_conditions) continue;
        end(failure(Code::kUnsupported, "{} runs a version that does not support conditions: update it",
                    link.name()));
        return false;
    }
    return true;
}

void PutJob::start_transaction() noexcept {
    // Before the greeting of a partition, its time, and perhaps the client's id, are not known. Waiting
    // also avoids leaving the transaction prepared because of a partition that is down.
    if (!reaches_all()) {
        waits_to_start_ = true;
        return wake_in(kRetryAfterLoss);
    }
    if (!know_conditions()) return;
    // Start no earlier than the slowest of its partitions' clocks: a client clock far behind them must not
    // cause refusals.
    Timestamp slowest = session_.times().of(parts_[0]->partition);
    for (size_t p = 1; p < part_count_; ++p)
        slowest = std::min(slowest, session_.times().of(parts_[p]->partition));
    request_->timestamp = session_.clock().next_after(std::max(past_, slowest), lead_of(conflicts_));
    owner_ = request_->timestamp.value;
    failure_ = Status();
    again_ = committed_ = sent_ = false;
    waits_to_start_ = false;
    for (size_t p = 0; p < part_count_; ++p) parts_[p]->lost = parts_[p]->refused = parts_[p]->done = false;
    if (!takes_locks()) return begin_writing();
    phase_ = Phase::kLocking;
    locking_since_ = session_.now();
    auto& wanted = locks_.wanted();
    wanted.clear();
    for (size_t p = 0; p < part_count_; ++p)
        for (uint32_t item : parts_[p]->items)
            wanted.push_back({parts_[p]->partition, request_->items[item].key});
    locks_.acquire(
        owner_, true, session_.options().algorithm == Algorithm::kLockSequential,
        [](void* self, LockResult result) noexcept {
            PutJob& job = *static_cast<PutJob*>(self);
            if (result == LockResult::kGranted) return job.write_under_locks();
            if (result == LockResult::kLost) return job.lock_again();
            if (result == LockResult::kDenied) return job.end(job.locks_.denial());
            job.locks_refused();
        },
        this);
}

// The timestamp must be later than every version that the locks protect. The partitions granted the locks to
// an owner with a timestamp of about that time. If the timestamp is too much later, the locks are requested
// again.
void PutJob::write_under_locks() noexcept {
    // The first lock may have ended while the client waited for the last.
    if (session_.now() - locking_since_ > kLockedFor) return restart();
    const Timestamp owner{owner_};
    const Timestamp later = session_.clock().next_after(std::max(locks_.latest(), owner));
    if (later.ticks() > owner.ticks() + kLockedLead_ticks) {
        past_ = std::max(past_, later);
        return restart();
    }
    request_->timestamp = later;
    begin_writing();
}

void PutJob::locks_refused() noexcept {
    ++session_.statistics().lock_conflicts;
    if (const auto& behind = locks_.behind()) {
        failure_ = session_.too_far_ahead(behind->partition, {owner_}, behind->clock);
        if (session_.times().learn(behind->partition, behind->clock)) past_ = {};
    }
    restart();
}

// The caller chose the time of expiry. Partitions refuse a version that expires before it is written.
bool PutJob::ends_before_it_begins() const {
    return !request_->expires.is_none() && request_->ttl_ms == 0 && request_->expires <= request_->timestamp;
}

void PutJob::begin_writing() noexcept {
    if (!ends_before_it_begins()) return enter(Phase::kPreparing);
    if (takes_locks()) locks_.release(owner_);
    request_->is_over = true;
    end(Status(Code::kInvalid, "the keys expire before they could be written"));
}

void PutJob::enter(Phase phase) noexcept {
    phase_ = phase;
    for (size_t p = 0; p < part_count_; ++p)
        parts_[p]->done = phase == Phase::kAborting && parts_[p]->refused;
    ++base_->rounds;
    send_all();
}

// Sends to all parts that are not done, including repetitions.
void PutJob::send_all() noexcept {
    building_ = true;
    lost_ = false;
    for (size_t p = 0; p < part_count_; ++p)
        if (Part& part = *parts_[p]; !part.done && part.call.id == 0) send(part);
    building_ = false;
    phase_over();
}

void PutJob::send(Part& part) noexcept {
    const WriteFault& fault = request_->fault;
    uint64_t skip = phase_ == Phase::kPreparing ? fault.skip_prepare : fault.skip_commit;
    if (skips(skip, part)) {
        part.done = true;
        return;
    }
    Link& link = session_.link(part.partition);
    wire::KvDecision decision{.timestamp = request_->timestamp.value};
    bool sent = false;
    if (phase_ == Phase::kPreparing)
        sent = send_prepare(part);
    else
        sent =
            link.call(part.call, phase_ == Phase::kCommitting ? wire::KvKind::kCommit : wire::KvKind::kAbort,
                      0, decision);
    if (sent) {
        ++outstanding_;
        ++session_.statistics().messages;
    } else {
        lost_ = true;
    }
}

bool PutJob::send_prepare(Part& part) noexcept {
    prepare_.timestamp = request_->timestamp.value;
    prepare_.owner = owner_;
    prepare_.participants = participants_;
    prepare_.metadata = metadata_;
    prepare_.items.clear();
    prepare_.conditions.clear();
    uint64_t expires = request_->expires.value;
    // The expiry is the same on all partitions: it is computed from the timestamp, not from the time of
    // sending.
    if (request_->ttl_ms != 0)
        expires = Timestamp::make(request_->timestamp.ticks() + request_->ttl_ms * 1000, 0).value;
    for (uint32_t index : part.items) {
        const PutAll::Item& item = request_->items[index];
        prepare_.items.push_back({.key = item.key,
                                  .value = item.remove ? wire::Bytes() : bytes_of(item.value),
                                  .expires = expires,
                                  .is_deleted = item.remove});
    }
    for (uint32_t index : part.conditions) {
        const PutAll::Condition& condition = request_->conditions[index];
        prepare_.conditions.push_back({.key = condition.key, .expected = condition.expected.value});
    }
    uint8_t flags = one_message() ? wire::kKvPrepareCommit : 0;
    if (takes_locks()) flags |= wire::kKvPrepareUnlock;
    if (!request_->conditions.empty()) flags |= wire::kKvPrepareIf;
    bool sent = session_.link(part.partition).call(part.call, wire::KvKind::kPrepare, flags, prepare_);
    sent_ = sent_ || sent;
    return sent;
}

// --- answers ---

void PutJob::on_reply(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept {
    PutJob& job = *static_cast<PutJob*>(call.context);
    --job.outstanding_;
    job.answered(*job.parts_[call.index], header, message);
    job.phase_over();
}

void PutJob::answered(Part& part, const wire::KvHeader* header, wire::Bytes message) noexcept {
    put_off_by =
        header != nullptr && header->status == wire::KvStatus::kNotReady ? part.partition : kPartitionsMax;
    if (header == nullptr || header->status == wire::KvStatus::kNotReady) {
        lost_ = true;
        part.lost = part.lost || header == nullptr;
        return;
    }
    // The partition's clock, or the conflicting timestamp.
    wire::KvDecision reply;
    if (wire::parse(message, reply)) session_.clock().observe({reply.timestamp});
    if (header->status == wire::KvStatus::kPermission)
        failure_ = session_.link(part.partition).denied(message);
    switch (phase_) {
        case Phase::kPreparing:
            if (header->status == wire::KvStatus::kConditionFailed) return condition_failed(part, message);
            return prepare_answered(part, header->status, {reply.timestamp});
        case Phase::kCommitting:
            return commit_answered(part, header->status);
        default:
            return abort_answered(part, header->status);
    }
}

void PutJob::prepare_answered(Part& part, wire::KvStatus status, Timestamp named) noexcept {
    switch (status) {
        case wire::KvStatus::kPrepared:
        case wire::KvStatus::kCommitted:
        case wire::KvStatus::kOk:
            part.done = true;
            return;
        case wire::KvStatus::kLockConflict:
            is_locked_out_ = true;
            // The other partitions may already have written: send the same again.
            if (one_message() && part_count_ > 1) {
                lost_ = true;
                return;
            }
            [[fallthrough]];
        case wire::KvStatus::kTooOld:
            // The client's clock is behind the partition's floor or a version of the key.
            if (status == wire::KvStatus::kTooOld) {
                past_ = std::max(past_, named);
                ++conflicts_;
            }
            [[fallthrough]];
        case wire::KvStatus::kTooFarAhead:
            // The reply contains the partition's clock. If that was stepped, earlier conflicts may no longer
            // exist.
            if (status == wire::KvStatus::kTooFarAhead && session_.times().learn(part.partition, named))
                past_ = {};
            [[fallthrough]];
        case wire::KvStatus::kNotLeased:
        case wire::KvStatus::kAborted:
            // A timestamp too far ahead, a lock whose lease has ended, an id that now belongs to another
            // client, or partitions that have waited too long for this client: retry later with a new
            // timestamp.
            again_ = true;
            break;
        default:
            break;
    }
    part.done = true;
    part.refused = status == wire::KvStatus::kAborted || (!part.lost && status != wire::KvStatus::kIo);
    if (failure_) failure_ = why_refused(part, status, named);
}

// The write is not retried, whatever the other partitions answer.
void PutJob::condition_failed(Part& part, wire::Bytes message) noexcept {
    wire::KvFailedCondition failed;
    part.done = true;
    part.refused = !part.lost;
    if (!wire::parse(message, failed) || failed.index >= part.conditions.size()) {
        if (failure_) failure_ = Status(Code::kUnavailable, "the partition's answer is malformed");
        return;
    }
    session_.clock().observe({failed.timestamp});
    if (request_->failed_condition) return;
    request_->failed_condition = part.conditions[failed.index];
    request_->present = {failed.timestamp};
    failure_ = Status(Code::kRefused, "a condition does not hold");
}

Status PutJob::why_refused(const Part& part, wire::KvStatus status, Timestamp named) const {
    if (status == wire::KvStatus::kTooFarAhead)
        return session_.too_far_ahead(part.partition, request_->timestamp, named);
    if (status == wire::KvStatus::kTooOld)
        return Status(Code::kUnavailable, "later writes of the same keys conflicted repeatedly");
    return status_of(status);
}

void PutJob::commit_answered(Part& part, wire::KvStatus status) noexcept {
    part.done = true;
    if (status == wire::KvStatus::kCommitted || status == wire::KvStatus::kOk) {
        committed_ = true;
    } else if (status == wire::KvStatus::kUnknown) {
        failure_ = Status(Code::kUnavailable, "a partition no longer has a prepared write: it has lost data");
    } else {
        part.refused = again_ = status == wire::KvStatus::kAborted;
        if (!is_denial(failure_)) failure_ = status_of(status);
    }
}

void PutJob::abort_answered(Part& part, wire::KvStatus status) noexcept {
    // The client can no longer abort: the partitions are deciding.
    if (status == wire::KvStatus::kPrepared) {
        lost_ = true;
        return;
    }
    part.done = true;
    part.refused = status == wire::KvStatus::kAborted;
    committed_ = committed_ || status == wire::KvStatus::kCommitted;
}

size_t PutJob::refused_parts() const {
    return static_cast<size_t>(std::count_if(parts_.begin(),
                                             parts_.begin() + static_cast<ptrdiff_t>(part_count_),
                                             [](const auto& part) { return part->refused; }));
}

void PutJob::phase_over() noexcept {
    if (building_ || outstanding_ > 0) return;
    if (lost_) return wake_in(kRetryAfterLoss);
    switch (phase_) {
        case Phase::kLocking:
            return;
        case Phase::kPreparing:
            if (request_->fault.die_after_prepare)
                return request_->outcome_unknown = true,
                       end(Status(Code::kClosed, "injected fault: the client stops after its prepare"));
            if (!failure_) return prepare_failed();
            if (one_message()) return end(Status::ok());
            return enter(Phase::kCommitting);
        case Phase::kCommitting:
            if (failure_) return end(Status::ok());
            // Aborted by one partition, committed by none: it counts as not written once all report an abort.
            if (again_ && !committed_) return enter(Phase::kAborting);
            return end_unknown();
        case Phase::kAborting:
            return abort_over();
    }
}

void PutJob::prepare_failed() noexcept {
    if (refused_parts() == part_count_) return abort_over();
    if (!one_message() || part_count_ == 1) return enter(Phase::kAborting);
    // Writes of Algorithm::kNone cannot be rolled back.
    request_->outcome_unknown = true;
    end(failure_);
}

void PutJob::abort_over() noexcept {
    const size_t refused = refused_parts();
    if (committed_ && refused == 0) {
        failure_ = Status();
        return one_message() ? end(Status::ok()) : enter(Phase::kCommitting);
    }
    if (committed_ || refused == 0) return end_unknown();
    if (again_ && !is_denial(failure_) && !request_->failed_condition && refused == part_count_)
        return restart();
    end(failure_);
}

void PutJob::end_unknown() noexcept {
    request_->outcome_unknown = true;
    if (request_->failed_condition)
        failure_ = Status(Code::kUnavailable, "a partition no longer has the outcome of the write");
    if (committed_ && refused_parts() > 0)
        failure_ = Status(Code::kInternal,
                          "one partition has committed the transaction, another one has aborted it");
    end(failure_);
}

// Requests the locks again later, because a partition cannot be reached at present.
void PutJob::lock_again() noexcept {
    locks_.release(owner_);
    waits_to_start_ = true;
    wake_in(kRetryAfterLoss);
}

void PutJob::restart() noexcept {
    if (takes_locks()) locks_.release(owner_);
    if (++base_->retries > restarts_max())
        return end(!failure_           ? failure_
                   : locks_.was_full() ? Status(Code::kExhausted, "a partition has no room for more locks")
                                       : Status(Code::kRefused, "could not obtain the locks"));
    waits_to_start_ = true;
    const uint32_t doublings = is_locked_out_ ? kLockedOutDoublings : kRestartDoublings;
    uint64_t spread = uint64_t{kLockBackoff_us} << std::min(base_->retries, doublings);
    wake_in(from_us(static_cast<int64_t>(session_.random().below(spread))));
}

// Lock conflicts get more attempts than refusals by a partition, because the lock of a vanished client ends
// only with its lease. The deadline limits them.
uint32_t PutJob::restarts_max() const {
    const uint32_t lock_retries = session_.options().lock_retries;
    if (!takes_locks()) return is_locked_out_ ? UINT32_MAX : kRestartsMax;
    return failure_ ? lock_retries : std::min(lock_retries, kRestartsMax);
}

void PutJob::on_wake() noexcept {
    waits_to_start_ ? start_transaction() : send_all();
}

uint32_t PutJob::waits_for() const {
    uint32_t partition = kPartitionsMax;
    for (size_t p = part_count_; p-- > 0;)
        if (waits_to_start_ || !parts_[p]->done) partition = parts_[p]->partition;
    for (size_t p = 0; p < part_count_; ++p)
        if (!session_.link(parts_[p]->partition).ready()) return parts_[p]->partition;
    return partition;
}

// True if no partition has committed because of this client. A partition that answered an inquiry with
// "prepared" refuses the abort.
bool PutJob::may_abort() const {
    return sent_ && !one_message() && !committed_ && phase_ != Phase::kCommitting &&
           !request_->fault.die_after_prepare;
}

void PutJob::give_up(const Status& why) noexcept {
    for (size_t p = 0; p < part_count_; ++p)
        if (parts_[p]->call.id != 0) session_.link(parts_[p]->partition).forget(parts_[p]->call);
    locks_.forget();
    outstanding_ = 0;
    if (may_abort())
        for (size_t p = 0; p < part_count_; ++p)
            session_.link(parts_[p]->partition)
                .send_only(wire::KvKind::kAbort, 0, wire::KvDecision{.timestamp = request_->timestamp.value});
    const bool is_known = (!one_message() || part_count_ == 1) && refused_parts() > 0 && !committed_;
    request_->outcome_unknown = sent_ && !is_known;
    if (is_known && request_->failed_condition) return end(failure_);
    const bool was_locked_out = is_locked_out_ && waits_to_start_ && why.code() == Code::kTimedOut;
    end(was_locked_out ? Status(Code::kTimedOut, std::string(kLockedOut)) : why);
}

void PutJob::end(Status status) noexcept {
    // A successful write ends its locks; a failed one may have left them.
    if (!status && owner_ != 0 && takes_locks()) locks_.release(owner_);
    sent_ = false;
    // A condition that failed for a repeated write proves nothing.
    if (status.code() != Code::kRefused) request_->failed_condition.reset();
    session_.finish(*this, *base_, std::move(status));
}

}  // namespace wss::kv
