// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/snapshots.h"

#include <algorithm>

#include "lib/base/log.h"

namespace wss::kv {

namespace {

constexpr size_t kNameMax = 64;

bool is_name(std::string_view text) {
    auto good = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
               c == '_' || c == '.';
    };
    // An incomplete snapshot has this ending, and is removed before a new one of its name.
    return !text.empty() && text.size() <= kNameMax && text[0] != '.' && !text.ends_with(".partial") &&
           std::all_of(text.begin(), text.end(), good);
}

}  // namespace

void Snapshots::begin(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    wire::KvText wanted;
    if (!wire::parse(message, wanted) || wanted.timestamp == 0)
        return partition_.refuse(peer, header, wire::KvStatus::kMalformed, "malformed snapshot");
    // The store refuses writes at or below a snapshot's time. One far in the future would block writes for
    // years.
    if (partition_.is_too_far_ahead({wanted.timestamp}))
        return partition_.refuse(peer, header, wire::KvStatus::kTooFarAhead,
                                 "the snapshot's time is too far ahead");
    if (partition_.options().snapshots.empty())
        return partition_.refuse(
            peer, header, wire::KvStatus::kUnsupported,
            "this partition has no directory for snapshots: start it with --kv-directory");
    if (!is_name(wanted.text))
        return partition_.refuse(peer, header, wire::KvStatus::kUnsupported,
                                 "a snapshot's name consists of at most 64 letters, digits, '-', '_' and "
                                 "'.', and does not end with "
                                 "'.partial'");
    if (snapshot_)
        return partition_.refuse(peer, header, wire::KvStatus::kUnsupported,
                                 is_ended_ ? "the disk has not removed the last snapshot, which failed"
                                           : "another snapshot is in progress");
    std::string directory = partition_.options().snapshots + "/" + std::string(wanted.text);
    auto begun = store::Snapshot::begin(partition_.store(), {wanted.timestamp}, directory,
                                        partition_.options().identity);
    if (!begun) {
        const bool is_late = begun.status().code() == Code::kNotFound;
        return partition_.refuse(peer, header, is_late ? wire::KvStatus::kTooOld : wire::KvStatus::kIo,
                                 is_late ? begun.status().text() : begun.status().to_string());
    }
    snapshot_ = std::move(*begun);
    is_ended_ = false;
    waiter_.owe(peer, header);
    log::info("key-value partition {}: snapshot to {}", partition_.options().partition, directory);
}

void Snapshots::tick() {
    if (!snapshot_) return;
    if (is_ended_) return clean_up();
    const Result<bool> turn = snapshot_->turn(partition_.reactor().clock());
    if (!turn) return end(turn.status());
    if (*turn) return end(Status::ok());
}

void Snapshots::clean_up() {
    if (snapshot_->clean_up()) snapshot_.reset();
}

void Snapshots::end(const Status& status) {
    if (status)
        log::info("key-value partition {}: snapshot of {} keys is complete", partition_.options().partition,
                  snapshot_->keys());
    else
        log::error("key-value partition {}: the snapshot failed: {}", partition_.options().partition,
                   status.to_string());
    is_ended_ = true;
    clean_up();
    Peer* peer = waiter_.peer();
    if (peer == nullptr) return;
    std::string text = status.to_string();
    peer->channel()->send(
        partition_.reply_to(waiter_.header(), status ? wire::KvStatus::kOk : wire::KvStatus::kIo),
        wire::KvText{.text = status ? std::string_view() : std::string_view(text)});
    waiter_.settle();
}

}  // namespace wss::kv
