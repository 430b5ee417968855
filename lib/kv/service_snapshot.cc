// SPDX-License-Identifier: Apache-2.0
// Snapshots: a client names the timestamp, the same for all partitions, and a name; each partition makes a
// directory of that name below the one that its operator configured (a client must not choose where we
// write).
#include <algorithm>

#include "lib/base/log.h"
#include "lib/kv/service_peer.h"

namespace wss::kv {

namespace {

// For undecided transactions to be terminated, and for the copy.
constexpr Nanoseconds kSnapshotLimit = from_s(600);
constexpr size_t kNameMax = 64;

bool is_name(std::string_view text) {
    auto good = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
               c == '_' || c == '.';
    };
    return !text.empty() && text.size() <= kNameMax && text[0] != '.' &&
           std::all_of(text.begin(), text.end(), good);
}

}  // namespace

void Service::snapshot(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    wire::KvText wanted;
    if (!wire::parse(message, wanted) || wanted.timestamp == 0)
        return refuse(peer, header, wire::KvStatus::kMalformed, "malformed snapshot");
    // The store refuses writes at or below a snapshot's time: one far ahead would refuse them for years.
    if (is_too_far_ahead({wanted.timestamp}))
        return refuse(peer, header, wire::KvStatus::kTooFarAhead, "the snapshot's time is too far ahead");
    if (options_.snapshots.empty())
        return refuse(peer, header, wire::KvStatus::kUnsupported,
                      "this partition has no directory for snapshots: start it with --kv-directory");
    if (!is_name(wanted.text))
        return refuse(peer, header, wire::KvStatus::kUnsupported,
                      "a snapshot's name has letters, digits, '-', '_' and '.', at most 64 of them");
    if (snapshot_)
        return refuse(peer, header, wire::KvStatus::kUnsupported, "another snapshot is being made");
    std::string directory = options_.snapshots + "/" + std::string(wanted.text);
    auto begun = store::Snapshot::begin(*store_, {wanted.timestamp}, directory, options_.identity);
    if (!begun) return refuse(peer, header, wire::KvStatus::kIo, begun.status().to_string());
    snapshot_ = std::move(*begun);
    snapshot_header_ = header;
    snapshot_peer_ = &peer;
    snapshot_deadline_ = reactor_.now() + kSnapshotLimit;
    log::info("key-value partition {}: snapshot to {}", options_.partition, directory);
}

void Service::work_on_snapshot() {
    if (!snapshot_) return;
    auto stepped = snapshot_->step();
    if (!stepped) return end_snapshot(stepped.status());
    if (*stepped) return end_snapshot(Status::ok());
    if (reactor_.now() >= snapshot_deadline_)
        end_snapshot(Status(Code::kTimedOut, "an undecided transaction stands in the way of the snapshot"));
}

void Service::end_snapshot(const Status& status) {
    if (status)
        log::info("key-value partition {}: snapshot of {} keys is complete", options_.partition,
                  snapshot_->keys());
    else
        log::error("key-value partition {}: no snapshot: {}", options_.partition, status.to_string());
    snapshot_.reset();
    if (snapshot_peer_ == nullptr) return;
    std::string text = status.to_string();
    snapshot_peer_->channel()->send(
        reply_to(snapshot_header_, status ? wire::KvStatus::kOk : wire::KvStatus::kIo),
        wire::KvText{.text = status ? std::string_view() : std::string_view(text)});
    snapshot_peer_ = nullptr;
}

}  // namespace wss::kv
