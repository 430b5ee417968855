// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/simple_job.h"

#include <algorithm>
#include <charconv>

namespace wss::kv {

namespace {

constexpr Nanoseconds kRetryAfterLoss = from_ms(10);
constexpr uint32_t kAttemptsMax = 200;  // attempts of a conditional put

// A cursor is "<partition>:<last key>".
bool parse_cursor(const std::string& cursor, uint32_t& partition, std::string& after) {
    if (cursor.empty()) return true;
    auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), partition);
    if (error != std::errc() || end == cursor.data() + cursor.size() || *end != ':') return false;
    after.assign(end + 1, cursor.data() + cursor.size());
    return true;
}

Status check_key(const std::string& key) {
    if (!key.empty() && key.size() <= kKeyMax) return Status::ok();
    return failure(Code::kInvalid, "a key of {} bytes: between 1 and {} are allowed", key.size(), kKeyMax);
}

}  // namespace

void SimpleJob::begin(Request& request) noexcept {
    request_ = &request;
    sent_ = false;
    partition_ = 0;
    after_.clear();
    if (Status status = check(); !status) return end(std::move(status));
    if (request.kind == Request::Kind::kPutIf && !session_.has_id()) return wake_in(kRetryAfterLoss);
    send();
}

Status SimpleJob::check() noexcept {
    switch (request_->kind) {
        case Request::Kind::kPutIf: {
            auto& put = static_cast<PutIf&>(*request_);
            WSS_TRY(check_key(put.key));
            if (put.value.size() > kValueMax)
                return failure(Code::kInvalid, "a value of {} bytes: at most {} are allowed",
                               put.value.size(), kValueMax);
            if (put.ttl_ms > kTtlMax_ms)
                return failure(Code::kInvalid, "a time to live of {} ms: at most {} ms are allowed",
                               put.ttl_ms, kTtlMax_ms);
            put.outcome_unknown = false;
            partition_ = partition_of(fingerprint(put.key), session_.partitions());
            past_ = {};
            conflicts_ = 0;
            new_attempt();
            return Status::ok();
        }
        case Request::Kind::kScan: {
            auto& scan = static_cast<Scan&>(*request_);
            scan.rows.clear();
            if (!parse_cursor(scan.cursor, partition_, after_) || partition_ >= session_.partitions() ||
                scan.limit == 0 || scan.prefix.size() > kKeyMax || after_.size() > kKeyMax)
                return Status(Code::kInvalid,
                              "the scan's cursor was not returned by an earlier scan, its prefix is too "
                              "long, or its limit is 0");
            return Status::ok();
        }
        case Request::Kind::kInfo:
            partition_ = static_cast<Info&>(*request_).partition;
            if (partition_ >= session_.partitions())
                return failure(Code::kInvalid, "there is no partition {}", partition_);
            return Status::ok();
        default:
            return Status(Code::kInternal, "not a simple request");
    }
}

void SimpleJob::new_attempt() noexcept {
    past_ = std::max(past_, session_.times().of(partition_));
    static_cast<PutIf&>(*request_).timestamp = session_.clock().next_after(past_, lead_of(conflicts_));
    sent_ = lost_ = aborting_ = false;
}

void SimpleJob::send() noexcept {
    call_.done = &SimpleJob::on_reply;
    call_.context = this;
    Link& link = session_.link(partition_);
    bool sent = false;
    switch (request_->kind) {
        case Request::Kind::kPutIf:
            sent = send_put_if(link);
            break;
        case Request::Kind::kScan:
            sent = send_scan(link);
            break;
        default:
            sent = link.call(call_, wire::KvKind::kInfo, 0, wire::KvText{});
    }
    if (!sent) return wake_in(kRetryAfterLoss);
    sent_ = true;
    ++session_.statistics().messages;
    request_->rounds = 1;
}

bool SimpleJob::send_put_if(Link& link) noexcept {
    auto& put = static_cast<PutIf&>(*request_);
    if (aborting_)
        return link.call(call_, wire::KvKind::kAbort, 0, wire::KvDecision{.timestamp = put.timestamp.value});
    wire::KvPutIf body{.timestamp = put.timestamp.value};
    if (put.condition == PutIf::Condition::kTimestamp) body.expected = put.expected.value;
    body.item.key = put.key;
    body.item.is_deleted = put.remove;
    if (!put.remove) body.item.value = std::as_bytes(std::span(put.value.data(), put.value.size()));
    if (put.ttl_ms != 0)
        body.item.expires = Timestamp::make(put.timestamp.ticks() + put.ttl_ms * 1000, 0).value;
    return link.call(call_, wire::KvKind::kPutIf, 0, body);
}

bool SimpleJob::send_scan(Link& link) noexcept {
    auto& scan = static_cast<Scan&>(*request_);
    auto left = static_cast<uint32_t>(scan.limit - scan.rows.size());
    return link.call(call_, wire::KvKind::kScan, wire::kKvScanExpires | wire::kKvScanGoesOn,
                     wire::KvScan{.prefix = scan.prefix,
                                  .cursor = after_,
                                  .limit = std::min(left, wire::kKvScanMax),
                                  .with_values = scan.with_values});
}

void SimpleJob::on_wake() noexcept {
    // Before the first greeting the partition's time, and perhaps the client's id, are not known.
    if (request_->kind == Request::Kind::kPutIf && !sent_) {
        if (!session_.has_id()) return wake_in(kRetryAfterLoss);
        new_attempt();
    }
    send();
}

void SimpleJob::on_reply(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept {
    SimpleJob& job = *static_cast<SimpleJob*>(call.context);
    // All of these can be repeated. A conditional put is recognised by its timestamp, which the partition
    // remembers.
    job.lost_ = job.lost_ || header == nullptr;
    job.put_off_by =
        header != nullptr && header->status == wire::KvStatus::kNotReady ? job.partition_ : kPartitionsMax;
    if (header == nullptr || header->status == wire::KvStatus::kNotReady) return job.wake_in(kRetryAfterLoss);
    job.answered(*header, message);
}

void SimpleJob::answered(const wire::KvHeader& header, wire::Bytes message) noexcept {
    if (header.status == wire::KvStatus::kPermission) return denied(message);
    switch (request_->kind) {
        case Request::Kind::kPutIf:
            return put_if_answered(header, message);
        case Request::Kind::kScan:
            return scan_answered(header, message);
        default:
            return info_answered(header, message);
    }
}

// A put that was sent before may have been carried out while the client had the right.
void SimpleJob::denied(wire::Bytes message) noexcept {
    if (request_->kind == Request::Kind::kPutIf)
        static_cast<PutIf&>(*request_).outcome_unknown = lost_ || aborting_;
    end(session_.link(partition_).denied(message));
}

void SimpleJob::put_if_answered(const wire::KvHeader& header, wire::Bytes message) noexcept {
    wire::KvDecision decision;
    if (wire::parse(message, decision)) session_.clock().observe({decision.timestamp});
    if (header.status == wire::KvStatus::kCommitted || header.status == wire::KvStatus::kOk)
        return end(Status::ok());
    if (aborting_) return abort_answered(header.status);
    refusal_ = header.status;
    in_the_way_ = {decision.timestamp};
    if (!lost_ || refusal_ == wire::KvStatus::kAborted) return put_if_refused();
    aborting_ = true;
    send();
}

void SimpleJob::abort_answered(wire::KvStatus status) noexcept {
    if (status == wire::KvStatus::kAborted) return put_if_refused();
    static_cast<PutIf&>(*request_).outcome_unknown = true;
    end(Status(Code::kUnavailable, "the partition no longer has the outcome of the conditional put"));
}

// The partition holds nothing of this attempt and never will, except after kIo.
void SimpleJob::put_if_refused() noexcept {
    auto& put = static_cast<PutIf&>(*request_);
    switch (refusal_) {
        case wire::KvStatus::kConditionFailed:
            put.timestamp = in_the_way_;
            return end(Status(Code::kRefused, "the condition does not hold"));
        case wire::KvStatus::kLockConflict:  // the key has an undecided write
        case wire::KvStatus::kTooOld:
        case wire::KvStatus::kTooFarAhead:
        case wire::KvStatus::kNotLeased:
        case wire::KvStatus::kAborted:
            if (++put.retries > kAttemptsMax) return end(why_refused());
            if (refusal_ == wire::KvStatus::kTooOld) {
                past_ = std::max(past_, in_the_way_);
                ++conflicts_;
            }
            if (refusal_ == wire::KvStatus::kTooFarAhead && session_.times().learn(partition_, in_the_way_))
                past_ = {};
            new_attempt();
            return wake_in(kRetryAfterLoss);
        case wire::KvStatus::kNoMemory:
            return end(Status(Code::kExhausted, "the partition's memory is full: writes are refused"));
        case wire::KvStatus::kIo:
            // The partition may find it in its log when it starts again.
            put.outcome_unknown = true;
            return end(Status(Code::kIo,
                              "the partition cannot write its log, and refuses writes until it is "
                              "restarted: see its program's log"));
        default:
            return end(failure(Code::kUnavailable, "the partition answered: {}", wire::to_string(refusal_)));
    }
}

Status SimpleJob::why_refused() const {
    if (refusal_ == wire::KvStatus::kTooFarAhead)
        return session_.too_far_ahead(partition_, static_cast<PutIf&>(*request_).timestamp, in_the_way_);
    if (refusal_ == wire::KvStatus::kTooOld)
        return Status(Code::kUnavailable, "later writes of the same key conflicted repeatedly");
    return Status(Code::kUnavailable, "the key has an undecided write");
}

void SimpleJob::scan_answered(const wire::KvHeader& header, wire::Bytes message) noexcept {
    auto& scan = static_cast<Scan&>(*request_);
    if (header.status != wire::KvStatus::kOk)
        return end(failure(Code::kUnavailable, "the partition answered: {}", wire::to_string(header.status)));
    if (!wire::parse(message, rows_))
        return end(Status(Code::kUnavailable, "the partition's answer is malformed"));
    for (const auto& row : rows_.rows) {
        Scan::Row& out = scan.rows.emplace_back();
        out.key = row.key;
        out.value.assign(reinterpret_cast<const char*>(row.value.data()), row.value.size());
        out.timestamp = {row.timestamp};
        out.expires = {row.expires};
    }
    if (!rows_.cursor.empty()) {
        // Otherwise the scan would never end.
        if (rows_.cursor <= after_)
            return end(Status(Code::kUnavailable, "the partition's scan does not advance"));
        after_ = rows_.cursor;
    } else {
        ++partition_;
        after_.clear();
    }
    if (partition_ >= session_.partitions()) {
        scan.cursor.clear();
        return end(Status::ok());
    }
    if (scan.rows.size() < scan.limit) return send();
    scan.cursor = fmt::format("{}:{}", partition_, after_);
    end(Status::ok());
}

void SimpleJob::info_answered(const wire::KvHeader& header, wire::Bytes message) noexcept {
    wire::KvText text;
    bool good = wire::parse(message, text);
    if (header.status != wire::KvStatus::kOk)
        return end(failure(Code::kUnavailable, "partition {}: {}{}{}", partition_,
                           wire::to_string(header.status), good && !text.text.empty() ? ": " : "",
                           good ? text.text : ""));
    if (!good) return end(Status(Code::kUnavailable, "the partition's answer is malformed"));
    static_cast<Info&>(*request_).json = text.text;
    end(Status::ok());
}

void SimpleJob::give_up(const Status& why) noexcept {
    if (call_.id != 0) session_.link(partition_).forget(call_);
    if (request_->kind == Request::Kind::kPutIf) static_cast<PutIf&>(*request_).outcome_unknown = sent_;
    end(why);
}

void SimpleJob::end(Status status) noexcept {
    session_.finish(*this, *request_, std::move(status));
}

}  // namespace wss::kv
