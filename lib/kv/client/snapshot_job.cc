// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/snapshot_job.h"

#include <algorithm>

namespace wss::kv {

constexpr Nanoseconds kAgain = from_ms(10);

void SnapshotJob::begin(Request& request) noexcept {
    request_ = static_cast<Snapshot*>(&request);
    request_->timestamp = {};
    parts_.assign(session_.partitions(), {});
    failure_ = Status::ok();
    on_wake();
}

bool SnapshotJob::all_ready() noexcept {
    bool all = true;
    for (uint32_t p = 0; p < session_.partitions(); ++p) all &= session_.link(p).ready();
    return all;
}

void SnapshotJob::on_wake() noexcept {
    if (request_->timestamp == Timestamp{}) {
        if (!all_ready()) return wake_in(kAgain);
        request_->timestamp = session_.clock().next_after(session_.times().slowest());
    }
    sending_ = true;
    for (Part& part : parts_) {
        if (part.sent) continue;
        if (!failure_)
            part.sent = part.answered = true;  // it would be of no use
        else if (!send(part))
            wake_in(kAgain);
    }
    sending_ = false;
    request_->rounds = 1;
    end_if_over();
}

bool SnapshotJob::send(Part& part) noexcept {
    const auto partition = static_cast<uint32_t>(&part - parts_.data());
    part.call = {.done = &SnapshotJob::on_reply, .context = this, .index = partition};
    part.sent = session_.link(partition).call(
        part.call, wire::KvKind::kSnapshot, 0,
        wire::KvText{.text = request_->directory, .timestamp = request_->timestamp.value});
    if (!part.sent) return false;
    ++session_.statistics().messages;
    if (put_off_by == partition) put_off_by = kPartitionsMax;
    return true;
}

void SnapshotJob::on_reply(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept {
    SnapshotJob& job = *static_cast<SnapshotJob*>(call.context);
    job.answered(job.parts_[call.index], header, message);
}

void SnapshotJob::answered(Part& part, const wire::KvHeader* header, wire::Bytes message) noexcept {
    const uint32_t partition = part.call.index;
    if (header != nullptr && header->status == wire::KvStatus::kNotReady) {
        part.sent = false;
        put_off_by = partition;
        return wake_in(kAgain);
    }
    part.answered = true;
    Status result = result_of(partition, header, message);
    if (failure_) failure_ = std::move(result);
    end_if_over();
}

Status SnapshotJob::result_of(uint32_t partition, const wire::KvHeader* header,
                              wire::Bytes message) noexcept {
    Link& link = session_.link(partition);
    if (header == nullptr)
        return failure(Code::kUnavailable,
                       "{}: the connection was lost before the snapshot was complete; create another one, "
                       "with another name",
                       link.name());
    if (header->status == wire::KvStatus::kPermission) return link.denied(message);
    wire::KvText text;
    const bool good = wire::parse(message, text);
    if (header->status != wire::KvStatus::kOk)
        return failure(Code::kUnavailable, "partition {}: {}{}{}", partition, wire::to_string(header->status),
                       good && !text.text.empty() ? ": " : "", good ? text.text : "");
    return good ? Status::ok() : Status(Code::kUnavailable, "the partition's answer is malformed");
}

// Waits for the answers of all partitions that were asked even if one is a failure: the next snapshot can
// begin when this one has ended everywhere.
void SnapshotJob::end_if_over() noexcept {
    const bool over = std::all_of(parts_.begin(), parts_.end(), [](const Part& one) { return one.answered; });
    if (over && !sending_) session_.finish(*this, *request_, std::move(failure_));
}

uint32_t SnapshotJob::waits_for() const {
    uint32_t first = kPartitionsMax, unreachable = kPartitionsMax;
    for (uint32_t p = 0; p < parts_.size(); ++p) {
        if (parts_[p].answered) continue;
        if (session_.link(p).is_denied()) return p;
        if (!session_.link(p).ready()) unreachable = std::min(unreachable, p);
        first = std::min(first, p);
    }
    if (put_off_by != kPartitionsMax && !parts_[put_off_by].answered) return put_off_by;
    return unreachable != kPartitionsMax ? unreachable : first;
}

void SnapshotJob::give_up(const Status& why) noexcept {
    for (uint32_t p = 0; p < parts_.size(); ++p)
        if (parts_[p].call.id != 0) session_.link(p).forget(parts_[p].call);
    // What has failed elsewhere is the better explanation.
    session_.finish(*this, *request_, failure_ ? why : std::move(failure_));
}

}  // namespace wss::kv
