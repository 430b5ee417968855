// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/scans.h"

namespace wss::kv {

namespace {

constexpr size_t kScanBytesMax = 4u << 20;
// Maximum number of fetched values per page: with the bytes above they fit in a message, whatever their size.
constexpr uint32_t kScanFetchesMax = 12;
static_assert(kScanBytesMax + (kScanFetchesMax + 1) * kValueMax < wire::kKvMessageMax);
constexpr size_t kRowBytes = 128;  // size of a waiting row, in addition to its key and value
// Maximum number of fetches per row, whose version may be replaced and collected during each.
constexpr uint32_t kFetchesMax = 4;

// Bytes that a page holds until it is complete. A version that replaces the fetched one may be larger.
size_t bytes_of_scan(const wire::KvScanReply& page, size_t cold) {
    size_t bytes = page.cursor.size() + cold * kValueMax;
    for (const auto& row : page.rows) bytes += kRowBytes + row.key.size() + row.value.size();
    return bytes;
}

// True if the client would treat the page as the last one, although keys are left.
bool seems_last(const wire::KvHeader& request, const wire::KvScanReply& page) {
    return page.rows.empty() && !page.cursor.empty() && (request.flags & wire::kKvScanGoesOn) == 0;
}

}  // namespace

struct Scans::ColdRow {
    ColdScan* scan = nullptr;
    std::string key, value;
    Timestamp timestamp, expires;
    uint32_t fetches = 0;
    bool is_gone = false;  // deleted meanwhile
};
struct Scans::ColdScan : Owed {
    Scans* scans = nullptr;
    std::vector<ColdRow> rows;  // must not grow after the first fetch
    std::string cursor;
    DiskShare::Hold hold;
    uint32_t outstanding = 0;
    bool failed = false;
    bool is_over = false;
};

Scans::Scans(Partition& partition, Access& access, DiskShare& disk)
    : partition_(partition), access_(access), disk_(disk) {}
Scans::~Scans() = default;

void Scans::tick() {
    std::erase_if(cold_, [](const auto& cold) { return cold->is_over; });
}

void Scans::scan(Peer& peer, const wire::KvHeader& header, wire::Bytes message) {
    wire::KvScan scan;
    if (!wire::parse(message, scan))
        return partition_.refuse(peer, header, wire::KvStatus::kMalformed, "malformed scan");
    if (!access_.allows(peer, header, scan)) return;
    ++partition_.counters().scans;
    reply_.rows.clear();
    reply_.cursor = {};
    const bool with_expiry = (header.flags & wire::kKvScanExpires) != 0;
    std::vector<size_t> cold;
    size_t bytes = 0;
    const uint64_t now = partition_.clock_stamp().ticks();
    const auto visit = [&](const store::Found& found) {
        const bool fetched = scan.with_values && found.cold;
        if (reply_.rows.size() >= scan.limit || bytes > kScanBytesMax ||
            (fetched && cold.size() == kScanFetchesMax))
            return false;
        const store::RecordView& version = found.version;
        if (!version.expires.is_none() && version.expires.ticks() <= now) return true;
        if (fetched) cold.push_back(reply_.rows.size());
        auto& row = reply_.rows.emplace_back();
        row.key = version.key;
        row.timestamp = version.timestamp.value;
        if (with_expiry) row.expires = version.expires.value;
        if (scan.with_values && !found.cold) row.value = version.value;
        bytes += row.key.size() + row.value.size() + 16;
        return true;
    };
    const store::Scanned scanned =
        partition_.store().scan(scan.prefix, scan.cursor, store::kNoTimestamp, visit);
    if (!scanned.is_over) reply_.cursor = scanned.last;
    if (seems_last(header, reply_)) return partition_.answer(peer, header, wire::KvStatus::kNotReady);
    if (!cold.empty()) {
        auto hold = disk_.admit(peer.disk, bytes_of_scan(reply_, cold.size()));
        if (hold) return scan_cold(peer, header, cold, std::move(*hold));
        ++partition_.counters().refused_cold;
        return partition_.answer(peer, header, wire::KvStatus::kNotReady);
    }
    peer.channel()->send(partition_.reply_to(header, wire::KvStatus::kOk), reply_);
}

// Copies the rows first, because fetching is not a const call.
void Scans::scan_cold(Peer& peer, const wire::KvHeader& header, std::span<const size_t> cold,
                      DiskShare::Hold hold) {
    auto made = std::make_unique<ColdScan>();
    ColdScan& job = *made;
    job.scans = this;
    job.owe(peer, header);
    job.cursor = reply_.cursor;
    for (const auto& row : reply_.rows) {
        ColdRow& copy = job.rows.emplace_back();
        copy.scan = &job;
        copy.key = row.key;
        copy.timestamp = {row.timestamp};
        copy.expires = {row.expires};
        copy.value.assign(reinterpret_cast<const char*>(row.value.data()), row.value.size());
    }
    job.hold = std::move(hold);
    cold_.push_back(std::move(made));
    job.outstanding = static_cast<uint32_t>(cold.size());
    for (size_t at : cold) fetch_row(job.rows[at]);
}

void Scans::fetch_row(ColdRow& row) {
    ++row.fetches;
    row.scan->hold.fetch(partition_.store(), row.key, row.timestamp,
                         {.run = &Scans::row_arrived, .context = &row});
}

void Scans::row_arrived(void* context, const store::Found& found) noexcept {
    auto& row = *static_cast<ColdRow*>(context);
    ColdScan& job = *row.scan;
    Partition& partition = job.scans->partition_;
    store::Found here = found;
    if (here.presence != store::Presence::kExact) {
        // The version was replaced and collected meanwhile, or the disk failed.
        here = partition.store().get(row.key, false);
        if (here.presence == store::Presence::kExact && here.cold) {
            row.timestamp = here.version.timestamp;
            if (row.fetches < kFetchesMax) return job.scans->fetch_row(row);
            job.failed = true;
        }
    }
    row.is_gone = here.presence != store::Presence::kExact || here.version.tombstone;
    row.timestamp = here.version.timestamp;
    if ((job.header().flags & wire::kKvScanExpires) != 0) row.expires = here.version.expires;
    if (!here.cold)
        row.value.assign(reinterpret_cast<const char*>(here.version.value.data()), here.version.value.size());
    if (--job.outstanding == 0) job.scans->send_cold(job);
}

void Scans::send_cold(ColdScan& job) {
    job.is_over = true;
    Peer* peer = job.peer();
    if (peer == nullptr) return;
    if (job.failed) return partition_.refuse(*peer, job.header(), wire::KvStatus::kIo, kUnreadable);
    wire::KvScanReply reply;
    for (const ColdRow& row : job.rows)
        if (!row.is_gone)
            reply.rows.push_back({.key = row.key,
                                  .timestamp = row.timestamp.value,
                                  .expires = row.expires.value,
                                  .value = std::as_bytes(std::span(row.value.data(), row.value.size()))});
    reply.cursor = job.cursor;
    if (seems_last(job.header(), reply))
        return partition_.answer(*peer, job.header(), wire::KvStatus::kNotReady);
    peer->channel()->send(partition_.reply_to(job.header(), wire::KvStatus::kOk), reply);
}

}  // namespace wss::kv
