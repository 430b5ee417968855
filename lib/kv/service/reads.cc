// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/reads.h"

#include <algorithm>

namespace wss::kv {

namespace {

// Size limit of one reply. Beyond it the client must split the transaction.
constexpr size_t kReplyBytesMax = 16u << 20;
// Versions that the lookups of one message may visit. A reader that requests versions soon after it has
// learnt of them passes only the few that were written meanwhile.
constexpr size_t kLooksMax = size_t{1} << 16;
constexpr std::string_view kTooMuchAtOnce =
    "the values of these keys on one partition exceed 16 MiB: read fewer keys at once";

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

struct Reads::ColdGet : Owed {
    struct Item {
        ColdGet* get = nullptr;
        wire::KvGetReply::Item reply;
        std::string metadata, value;
    };
    Reads* reads = nullptr;
    std::vector<Item> items;
    DiskShare::Hold hold;
    uint32_t outstanding = 0;
    bool is_over = false;
    bool failed = false;
    Nanoseconds began{};
};

Reads::Reads(Partition& partition, Access& access, DiskShare& disk)
    : partition_(partition), access_(access), disk_(disk) {}
Reads::~Reads() = default;

void Reads::tick() {
    std::erase_if(cold_, [](const auto& cold) { return cold->is_over; });
}

store::Found Reads::find(const wire::KvGet::Item& item, size_t& looks, bool addressed) {
    const store::Store& store = partition_.store();
    switch (item.select) {
        case wire::KvSelect::kExact:
            return store.get_exact(item.key, {item.timestamp}, addressed, &looks);
        case wire::KvSelect::kAmong:
            return store.get_newest(item.key, among_, addressed, &looks);
        default:
            return store.get(item.key, addressed);
    }
}

wire::KvStatus Reads::check(const Peer& peer, const wire::KvHeader& header) {
    for (const wire::KvGet::Item& item : get_.items)
        if (wire::KvStatus status = partition_.check_key(item.key); status != wire::KvStatus::kOk)
            return status;
    return (header.flags & wire::kKvGetLocked) == 0 ? wire::KvStatus::kOk : lock(peer);
}

wire::KvStatus Reads::lock(const Peer& peer) {
    if (Timestamp{get_.owner}.client() != peer.client_id) return wire::KvStatus::kNotLeased;
    store::LockTable& table = partition_.store().locks();
    for (const wire::KvGet::Item& item : get_.items) {
        ++partition_.counters().locks;
        store::LockRequest request{.key = item.key, .owner = get_.owner, .mode = store::LockMode::kShared};
        const store::LockAnswer given = table.lock(request, {});
        if (given == store::LockAnswer::kGranted) continue;
        table.unlock_all(get_.owner);
        return given == store::LockAnswer::kFull ? wire::KvStatus::kNoMemory : wire::KvStatus::kLockConflict;
    }
    return wire::KvStatus::kOk;
}

// Looks up everything before anything else runs, so that the reply shows one state of this partition. kCold:
// a value is only on disk.
Reads::Looked Reads::look_up(uint8_t flags) {
    found_.clear();
    among_.clear();
    for (uint64_t timestamp : get_.among) among_.push_back({timestamp});
    std::sort(among_.begin(), among_.end());
    size_t looks = kLooksMax;
    Looked looked = Looked::kWarm;
    for (const wire::KvGet::Item& item : get_.items) {
        found_.push_back(find(item, looks, (flags & wire::kKvGetAddresses) != 0));
        if (looks == 0) return Looked::kTooMany;
        partition_.counters().second_round_gets += item.select != wire::KvSelect::kLatest;
        if (found_.back().cold && (flags & wire::kKvGetValues) != 0) looked = Looked::kCold;
    }
    return looked;
}

void Reads::get(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    const Nanoseconds began = partition_.reactor().clock().now();
    if (!wire::parse(message, get_))
        return partition_.refuse(peer, header, wire::KvStatus::kMalformed, "malformed get");
    if (!access_.allows(peer, header, get_)) return;
    if (wire::KvStatus status = check(peer, header); status != wire::KvStatus::kOk)
        return partition_.answer(peer, header, status);
    ++partition_.counters().gets;
    partition_.counters().get_keys += get_.items.size();
    count_fallback(header.flags);
    const Looked looked = look_up(header.flags);
    // The client begins again with the latest versions.
    if (looked == Looked::kTooMany) return partition_.answer(peer, header, wire::KvStatus::kNotReady);
    if (looked == Looked::kCold) return get_cold(peer, header, began);
    reply_.items.clear();
    size_t bytes = 0;
    for (const store::Found& found : found_) {
        reply_.items.push_back(reply_of(found, header.flags));
        bytes += reply_.items.back().value.size() + reply_.items.back().metadata.size();
    }
    if (bytes > kReplyBytesMax)
        return partition_.refuse(peer, header, wire::KvStatus::kUnsupported, kTooMuchAtOnce);
    peer.channel()->send(partition_.reply_to(header, wire::KvStatus::kOk), reply_);
    partition_.note_time(header.kind, peer, get_.items.size(), began);
}

// Counts why a client that reads one-sidedly sent a get; for several keys, the first one's reason.
void Reads::count_fallback(uint8_t flags) {
    const auto reason = static_cast<size_t>(flags >> wire::kKvFallbackShift);
    if (reason != 0 && reason < partition_.counters().fallbacks.size())
        ++partition_.counters().fallbacks[reason];
}

// --- values on disk ---

void Reads::get_cold(Peer& peer, const wire::KvHeader& header, Nanoseconds began) {
    size_t reply = 0, held = 0;
    for (size_t i = 0; i < found_.size(); ++i) {
        const size_t key = get_.items[i].key.size();
        if (found_[i].bytes != 0) reply += found_[i].bytes - store::record_bytes(key, 0, 0);
        held += sizeof(ColdGet::Item) + key + found_[i].bytes;
    }
    if (reply > kReplyBytesMax)
        return partition_.refuse(peer, header, wire::KvStatus::kUnsupported, kTooMuchAtOnce);
    auto hold = disk_.admit(peer.disk, held);
    if (!hold) {
        ++partition_.counters().refused_cold;
        return partition_.answer(peer, header, wire::KvStatus::kNotReady);
    }
    cold_.push_back(std::make_unique<ColdGet>());
    ColdGet& job = *cold_.back();
    job.began = began;
    job.reads = this;
    job.owe(peer, header);
    job.hold = std::move(*hold);
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
    // Fetching is not a const call: from here on no view into the store is valid.
    for (size_t i = 0; i < fetches.size(); ++i) {
        if (fetches[i].first.empty()) continue;
        ++job.outstanding;
        job.hold.fetch(partition_.store(), std::move(fetches[i].first), fetches[i].second,
                       {.run = &Reads::cold_arrived, .context = &job.items[i]});
    }
}

void Reads::cold_arrived(void* context, const store::Found& found) noexcept {
    ColdGet::Item& item = *static_cast<ColdGet::Item*>(context);
    ColdGet& job = *item.get;
    if (found.presence == store::Presence::kExact) {
        item.metadata = copy_of(found.version.metadata);
        item.value = copy_of(found.version.value);
        item.reply.is_deleted = found.version.tombstone;
    } else {
        job.failed = true;  // replaced and collected meanwhile, or the disk failed
    }
    if (--job.outstanding == 0) job.reads->send_cold(job);
}

void Reads::send_cold(ColdGet& job) {
    job.is_over = true;
    Peer* peer = job.peer();
    if (peer == nullptr) return;
    if (job.failed) return partition_.refuse(*peer, job.header(), wire::KvStatus::kIo, kUnreadable);
    wire::KvGetReply reply;
    auto bytes_of = [](const std::string& text) {
        return std::as_bytes(std::span(text.data(), text.size()));
    };
    for (ColdGet::Item& one : job.items) {
        one.reply.metadata = bytes_of(one.metadata);
        one.reply.value = bytes_of(one.value);
        reply.items.push_back(one.reply);
    }
    peer->channel()->send(partition_.reply_to(job.header(), wire::KvStatus::kOk), reply);
    partition_.note_time(job.header().kind, *peer, job.items.size(), job.began);
}

}  // namespace wss::kv
