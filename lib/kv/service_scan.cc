// SPDX-License-Identifier: Apache-2.0
// What a partition answers to scans: a page of keys in order, with their values if wanted. Values that are on
// disk only are fetched before the page is sent.
#include "lib/kv/service_peer.h"

namespace wss::kv {

namespace {

constexpr size_t kScanBytesMax = 4u << 20;
// Fetched values of a page: together with the bytes above they fit a message, however long they are.
constexpr uint32_t kScanFetchesMax = 12;
static_assert(kScanBytesMax + (kScanFetchesMax + 1) * kValueMax < wire::kKvMessageMax);
constexpr size_t kRowBytes = 128;  // of a row that waits, beside its key and value
// Of one row, whose version may be replaced and collected while it is fetched.
constexpr uint32_t kFetchesMax = 4;

// What a page holds until all of it is there. A version that replaces the one fetched may be larger.
size_t bytes_of_scan(const wire::KvScanReply& page, size_t cold) {
    size_t bytes = page.cursor.size() + cold * kValueMax;
    for (const auto& row : page.rows) bytes += kRowBytes + row.key.size() + row.value.size();
    return bytes;
}

}  // namespace

void Service::scan(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    wire::KvScan scan;
    if (!wire::parse(message, scan))
        return refuse(peer, header, wire::KvStatus::kMalformed, "malformed scan");
    ++counters_.scans;
    scan_reply_.rows.clear();
    scan_reply_.cursor = {};
    const bool with_expiry = (header.flags & wire::kKvScanExpires) != 0;
    std::vector<size_t> cold;
    size_t bytes = 0;
    const uint64_t now = clock_.now_ticks();
    // A client that takes an empty page for the last one has its scan in one turn.
    const bool bounded = (header.flags & wire::kKvScanGoesOn) != 0;
    const auto visit = [&](const store::Found& found) {
        const bool fetched = scan.with_values && found.cold;
        if (scan_reply_.rows.size() >= scan.limit || bytes > kScanBytesMax ||
            (fetched && cold.size() == kScanFetchesMax))
            return false;
        const store::RecordView& version = found.version;
        if (!version.expires.is_none() && version.expires.ticks() <= now) return true;
        if (fetched) cold.push_back(scan_reply_.rows.size());
        auto& row = scan_reply_.rows.emplace_back();
        row.key = version.key;
        row.timestamp = version.timestamp.value;
        if (with_expiry) row.expires = version.expires.value;
        if (scan.with_values && !found.cold) row.value = version.value;
        bytes += row.key.size() + row.value.size() + 16;
        return true;
    };
    const store::Scanned scanned = store_->scan(scan.prefix, scan.cursor, store::kNoTimestamp, visit,
                                                bounded ? store::kScanLooksMax : SIZE_MAX);
    if (!scanned.is_over) scan_reply_.cursor = scanned.last;
    if (!cold.empty()) {
        if (is_busy_with_disk(bytes_of_scan(scan_reply_, cold.size())))
            return answer(peer, header, wire::KvStatus::kNotReady);
        return scan_cold(peer, header, cold);
    }
    peer.channel()->send(reply_to(header, wire::KvStatus::kOk), scan_reply_);
}

// Fetching is not a const call: the rows are copied first.
void Service::scan_cold(Peer& peer, const wire::KvHeader& header, std::span<const size_t> cold) {
    auto made = std::make_unique<ColdScan>();
    ColdScan& job = *made;
    job.service = this;
    job.peer = &peer;
    job.header = header;
    job.cursor = scan_reply_.cursor;
    for (const auto& row : scan_reply_.rows) {
        ColdRow& copy = job.rows.emplace_back();
        copy.scan = &job;
        copy.key = row.key;
        copy.timestamp = {row.timestamp};
        copy.expires = {row.expires};
        copy.value.assign(reinterpret_cast<const char*>(row.value.data()), row.value.size());
    }
    job.bytes = bytes_of_scan(scan_reply_, cold.size());
    cold_scans_.push_back(std::move(made));
    job.outstanding = static_cast<uint32_t>(cold.size());
    for (size_t at : cold) fetch_row(job.rows[at]);
}

void Service::fetch_row(ColdRow& row) {
    ++row.fetches;
    store_->fetch(row.key, row.timestamp, {.run = &Service::row_arrived, .context = &row});
}

void Service::row_arrived(void* context, const store::Found& found) noexcept {
    auto& row = *static_cast<ColdRow*>(context);
    ColdScan& job = *row.scan;
    Service& service = *job.service;
    store::Found here = found;
    if (here.presence != store::Presence::kExact) {
        // Replaced and collected meanwhile, or the disk has failed.
        here = service.store_->get(row.key, false);
        if (here.presence == store::Presence::kExact && here.cold) {
            row.timestamp = here.version.timestamp;
            if (row.fetches < kFetchesMax) return service.fetch_row(row);
            job.failed = true;
        }
    }
    row.is_gone = here.presence != store::Presence::kExact || here.version.tombstone;
    row.timestamp = here.version.timestamp;
    if ((job.header.flags & wire::kKvScanExpires) != 0) row.expires = here.version.expires;
    if (!here.cold)
        row.value.assign(reinterpret_cast<const char*>(here.version.value.data()), here.version.value.size());
    if (--job.outstanding == 0) service.send_cold_scan(job);
}

void Service::send_cold_scan(ColdScan& job) {
    job.is_over = true;
    if (job.peer == nullptr) return;
    if (job.failed)
        return refuse(*job.peer, job.header, wire::KvStatus::kIo, "a value cannot be read from disk");
    wire::KvScanReply reply;
    for (const ColdRow& row : job.rows)
        if (!row.is_gone)
            reply.rows.push_back({.key = row.key,
                                  .timestamp = row.timestamp.value,
                                  .expires = row.expires.value,
                                  .value = std::as_bytes(std::span(row.value.data(), row.value.size()))});
    if (reply.rows.empty() && !job.cursor.empty() && (job.header.flags & wire::kKvScanGoesOn) == 0)
        return answer(*job.peer, job.header, wire::KvStatus::kNotReady);
    reply.cursor = job.cursor;
    job.peer->channel()->send(reply_to(job.header, wire::KvStatus::kOk), reply);
}

}  // namespace wss::kv
