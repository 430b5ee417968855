// SPDX-License-Identifier: Apache-2.0
// What a partition answers to readers.
#include <algorithm>

#include "lib/kv/placement.h"
#include "lib/kv/service_peer.h"

namespace wss::kv {

namespace {

// Of one reply. Beyond it the transaction is to be read in parts.
constexpr size_t kReplyBytesMax = 16u << 20;
constexpr std::string_view kTooMuchAtOnce =
    "the values of these keys on one partition are more than 16 MiB: read fewer keys at once";

wire::KvFound found_of(store::Presence presence) {
    switch (presence) {
        case store::Presence::kAbsent:
            return wire::KvFound::kAbsent;
        case store::Presence::kExact:
            return wire::KvFound::kExact;
        case store::Presence::kNewer:
            return wire::KvFound::kNewer;
        default:
            return wire::KvFound::kGone;
    }
}

std::string copy_of(wire::Bytes from) {
    return {reinterpret_cast<const char*>(from.data()), from.size()};
}

wire::KvGetReply::Item reply_of(const store::Found& found, uint8_t flags) {
    wire::KvGetReply::Item item;
    item.found = found_of(found.presence);
    if ((flags & wire::kKvGetAddresses) != 0) {
        item.slot = found.slot.offset;
        item.slot_bytes = found.slot.bytes;
        item.slot_incarnation = found.slot.incarnation;
    }
    if (found.presence == store::Presence::kAbsent || found.presence == store::Presence::kGone) return item;
    item.timestamp = found.version.timestamp.value;
    item.expires = found.version.expires.value;
    item.is_deleted = found.version.tombstone;
    if ((flags & wire::kKvGetValues) == 0) return item;
    item.metadata = found.version.metadata;
    item.value = found.version.value;
    return item;
}

}  // namespace

store::Found Service::find(const wire::KvGet::Item& item, bool addressed) {
    switch (item.select) {
        case wire::KvSelect::kExact:
            return store_->get_exact(item.key, {item.timestamp}, addressed);
        case wire::KvSelect::kAmong:
            return store_->get_newest(item.key, among_, addressed);
        default:
            return store_->get(item.key, addressed);
    }
}

wire::KvStatus Service::check_get(const Peer& peer, const wire::KvGet& get, const wire::KvHeader& header) {
    for (const wire::KvGet::Item& item : get.items)
        if (partition_of(fingerprint(item.key), static_cast<uint32_t>(options_.partitions.size())) !=
            options_.partition)
            return wire::KvStatus::kWrongPartition;
    if ((header.flags & wire::kKvGetLocked) == 0) return wire::KvStatus::kOk;
    if (Timestamp{get.owner}.client() != peer.client_id) return wire::KvStatus::kNotLeased;
    for (const wire::KvGet::Item& item : get.items) {
        ++counters_.locks;
        store::LockRequest request{.key = item.key, .owner = get.owner, .mode = store::LockMode::kShared};
        const store::LockAnswer given = store_->locks().lock(request, {});
        if (given == store::LockAnswer::kGranted) continue;
        store_->locks().unlock_all(get.owner);
        return given == store::LockAnswer::kFull ? wire::KvStatus::kNoMemory : wire::KvStatus::kLockConflict;
    }
    return wire::KvStatus::kOk;
}

// Everything is looked up before anything else runs: one state of this partition. False: a part is cold.
bool Service::look_up(const wire::KvGet& get, uint8_t flags) {
    found_.clear();
    among_.clear();
    for (uint64_t timestamp : get.among) among_.push_back({timestamp});
    bool warm = true;
    for (const wire::KvGet::Item& item : get.items) {
        found_.push_back(find(item, (flags & wire::kKvGetAddresses) != 0));
        counters_.second_round_gets += item.select != wire::KvSelect::kLatest;
        warm = warm && !(found_.back().cold && (flags & wire::kKvGetValues) != 0);
    }
    return warm;
}

void Service::get(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    const Nanoseconds began = reactor_.clock().now();
    if (!wire::parse(message, get_)) return refuse(peer, header, wire::KvStatus::kMalformed, "malformed get");
    if (wire::KvStatus status = check_get(peer, get_, header); status != wire::KvStatus::kOk)
        return answer(peer, header, status);
    ++counters_.gets;
    counters_.get_keys += get_.items.size();
    count_fallback(header.flags);
    if (!look_up(get_, header.flags)) return get_cold(peer, header, began);
    get_reply_.items.clear();
    size_t bytes = 0;
    for (const store::Found& found : found_) {
        get_reply_.items.push_back(reply_of(found, header.flags));
        bytes += get_reply_.items.back().value.size() + get_reply_.items.back().metadata.size();
    }
    if (bytes > kReplyBytesMax) return refuse(peer, header, wire::KvStatus::kUnsupported, kTooMuchAtOnce);
    peer.channel()->send(reply_to(header, wire::KvStatus::kOk), get_reply_);
    note_time(header.kind, peer, static_cast<uint32_t>(get_.items.size()), began);
}

void Service::note_time(wire::KvKind kind, const Peer& peer, uint32_t keys, Nanoseconds began) {
    const Nanoseconds now = reactor_.clock().now();
    slow_log_.add(
        {.kind = kind, .client = peer.client_id, .keys = keys, .at = now - started_, .took = now - began},
        options_.slow);
}

// Why a client that reads one-sidedly asks; of several keys, the first one's reason.
void Service::count_fallback(uint8_t flags) {
    const auto reason = static_cast<size_t>(flags >> wire::kKvFallbackShift);
    if (reason != 0 && reason < counters_.fallbacks.size()) ++counters_.fallbacks[reason];
}

// --- values on disk ---

// What waits for the disk holds all that it has so far, and is admitted with what it will hold. Its client
// comes again.
bool Service::is_busy_with_disk(size_t more) {
    size_t bytes = more;
    for (const auto& get : cold_) bytes += get->bytes;
    for (const auto& scan : cold_scans_) bytes += scan->bytes;
    if (cold_.size() + cold_scans_.size() < kColdRequestsMax && bytes <= kColdBytesMax) return false;
    ++counters_.refused_cold;
    return true;
}

void Service::get_cold(Peer& peer, const wire::KvHeader& header, Nanoseconds began) {
    size_t reply = 0, held = 0;
    for (size_t i = 0; i < found_.size(); ++i) {
        const size_t key = get_.items[i].key.size();
        if (found_[i].bytes != 0) reply += found_[i].bytes - store::record_bytes(key, 0, 0);
        held += sizeof(ColdGet::Item) + key + found_[i].bytes;
    }
    if (reply > kReplyBytesMax) return refuse(peer, header, wire::KvStatus::kUnsupported, kTooMuchAtOnce);
    if (is_busy_with_disk(held)) return answer(peer, header, wire::KvStatus::kNotReady);
    cold_.push_back(std::make_unique<ColdGet>());
    ColdGet& job = *cold_.back();
    job.began = began;
    job.service = this;
    job.peer = &peer;
    job.header = header;
    job.bytes = held;
    job.items.resize(found_.size());
    std::vector<std::pair<std::string, Timestamp>> fetches(found_.size());
    for (size_t i = 0; i < found_.size(); ++i) {
        ColdGet::Item& item = job.items[i];
        item.get = &job;
        item.reply = reply_of(found_[i], header.flags);
        item.metadata = copy_of(item.reply.metadata);
        item.value = copy_of(item.reply.value);
        if (found_[i].cold) fetches[i] = {std::string(get_.items[i].key), found_[i].version.timestamp};
    }
    // Fetching is not a const call: from here on no view of the store is valid.
    for (size_t i = 0; i < fetches.size(); ++i) {
        if (fetches[i].first.empty()) continue;
        ++job.outstanding;
        store_->fetch(fetches[i].first, fetches[i].second,
                      {.run = &Service::cold_arrived, .context = &job.items[i]});
    }
}

void Service::cold_arrived(void* context, const store::Found& found) noexcept {
    ColdGet::Item& item = *static_cast<ColdGet::Item*>(context);
    ColdGet& job = *item.get;
    if (found.presence == store::Presence::kExact) {
        item.metadata = copy_of(found.version.metadata);
        item.value = copy_of(found.version.value);
        item.reply.is_deleted = found.version.tombstone;
    } else {
        item.reply.found = wire::KvFound::kGone;  // collected meanwhile: the reader begins anew
    }
    if (--job.outstanding > 0) return;
    job.is_over = true;
    if (job.peer == nullptr) return;
    wire::KvGetReply reply;
    auto bytes_of = [](const std::string& text) {
        return std::as_bytes(std::span(text.data(), text.size()));
    };
    for (ColdGet::Item& one : job.items) {
        one.reply.metadata = bytes_of(one.metadata);
        one.reply.value = bytes_of(one.value);
        reply.items.push_back(one.reply);
    }
    job.peer->channel()->send(job.service->reply_to(job.header, wire::KvStatus::kOk), reply);
    job.service->note_time(job.header.kind, *job.peer, static_cast<uint32_t>(job.items.size()), job.began);
}

}  // namespace wss::kv
