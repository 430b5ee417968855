// SPDX-License-Identifier: Apache-2.0
// The one-sided reads of a get_all. slot_format.h validates what was read; keys that fail validation are read
// by message.
#include <utility>

#include "lib/kv/client/get_job.h"

namespace wss::kv {

namespace {

constexpr uint32_t kTornMax = 4;

store::ArenaView arena_of(const PartitionFacts& facts) {
    return {.bytes = facts.arena_bytes, .epoch = facts.arena_epoch};
}

fabric::RemoteAddress at(fabric::RemoteAddress base, uint64_t offset) {
    base.address += offset;
    return base;
}

// The remote address of the bucket or slot to read next.
fabric::RemoteAddress place_of(const ReadSet::KeyRead& key, const PartitionFacts& facts) {
    return key.wanted == ReadSet::Reading::kBucket ? at(facts.index, key.lookup.offset())
                                                   : at(facts.arena, key.address.offset);
}

// Called after a slot or record changed during the read. Returns kNone to read again, or kTorn after too many
// attempts.
Fallback repeat(ReadSet::KeyRead& key) {
    return ++key.torn < kTornMax ? Fallback::kNone : Fallback::kTorn;
}

}  // namespace

// Counts the reason why the key is read by message. Fallback::kNone means that it is read one-sidedly again.
GetJob::Now GetJob::fell_back(uint32_t index, Fallback reason) noexcept {
    if (reason == Fallback::kNone) return Now::kAgain;
    static constexpr uint64_t Statistics::*kCounts[] = {
        nullptr,
        &Statistics::fallback_no_address,
        &Statistics::fallback_invalid,
        &Statistics::fallback_stale,
        &Statistics::fallback_torn,
        &Statistics::fallback_large,
        &Statistics::fallback_second_round,
    };
    static_assert(std::size(kCounts) == size_t(Fallback::kCount), "a counter for each reason");
    set_[index].fallback = reason;
    ++(session_.statistics().*kCounts[size_t(reason)]);
    return Now::kByMessage;
}

bool GetJob::try_read(uint32_t index) noexcept {
    KeyRead& key = set_[index];
    Link& link = session_.link(key.partition);
    if (!link.ready()) return false;
    if (link.facts().arena_bytes == 0 || fell_back(index, search_.begin(key)) == Now::kByMessage)
        return false;
    switch (read_now(index)) {
        case Now::kDone:
            return true;
        case Now::kByMessage:
            return false;
        default:
            return post_read(index);
    }
}

bool GetJob::post_read(uint32_t index) noexcept {
    KeyRead& key = set_[index];
    Link& link = session_.link(key.partition);
    const bool is_bucket = key.wanted == Reading::kBucket;
    if (key.chunk == ReadBuffers::kNone) key.chunk = session_.reads().buffers().take();
    if (key.chunk == ReadBuffers::kNone) return false;
    if (!session_.reads().begin(link, *this,
                                {.from = place_of(key, link.facts()),
                                 .length = is_bucket ? uint32_t{store::kBucketBytes} : key.address.bytes,
                                 .chunk = key.chunk,
                                 .index = index},
                                key.cookie))
        return false;
    key.reading = key.wanted;
    ++outstanding_;
    return true;
}

void GetJob::on_read_done(uint32_t index, bool good) noexcept {
    KeyRead& key = set_[index];
    Reading what = std::exchange(key.reading, Reading::kNone);
    --outstanding_;
    ++request_->items[index].explain.rounds;
    if (!good)
        failed_ = true;
    else if (what == Reading::kBucket)
        go_on(index, search_.take_bucket(key, session_.reads().buffers().data(key.chunk)));
    else if (what == Reading::kSlot)
        slot_arrived(index);
    else
        record_arrived(index);
    step_done();
}

// --- if this CPU can access the partition's memory: buckets, slot and record within one call ---

GetJob::Now GetJob::read_now(uint32_t index) noexcept {
    KeyRead& key = set_[index];
    Link& link = session_.link(key.partition);
    for (;;) {
        key.has_view = false;
        const bool is_bucket = key.wanted == Reading::kBucket;
        const std::byte* bytes = session_.reads().now(
            link, place_of(key, link.facts()), is_bucket ? store::kBucketBytes : store::kSlotHeaderBytes);
        if (bytes == nullptr) return Now::kCannot;
        const Now result =
            is_bucket ? fell_back(index, search_.take_bucket(key, bytes)) : check_now(index, bytes);
        if (result != Now::kAgain) return result;
    }
}

GetJob::Now GetJob::check_now(uint32_t index, const std::byte* bytes) noexcept {
    KeyRead& key = set_[index];
    GetAll::Item& item = request_->items[index];
    item.explain.bytes += store::kSlotHeaderBytes;
    store::SlotStatus status =
        store::parse_slot({bytes, store::kSlotHeaderBytes}, arena_of(session_.link(key.partition).facts()),
                          key.fingerprint, key.address, key.view);
    if (status == store::SlotStatus::kTorn) return fell_back(index, repeat(key));
    if (status != store::SlotStatus::kOk) return fell_back(index, search_.begin_again(key));
    if (session_.options().one_sided == OneSided::kPaper && key.view.invalid)
        return fell_back(index, Fallback::kInvalid);
    key.has_view = true;
    const store::Entry* latest = key.view.latest();
    if (latest != nullptr) return record_now(index, *latest);
    // The key has no committed version, or the slot belongs to a key with the same fingerprint.
    key.has_view = false;
    return fell_back(index, Fallback::kNoAddress);
}

GetJob::Now GetJob::record_now(uint32_t index, const store::Entry& entry) noexcept {
    KeyRead& key = set_[index];
    Link& link = session_.link(key.partition);
    const std::byte* bytes =
        entry.is_cold() ? nullptr
                        : session_.reads().now(link, at(link.facts().arena, entry.offset), entry.length);
    if (bytes == nullptr) {
        key.has_view = false;
        return fell_back(index, Fallback::kLarge);
    }
    request_->items[index].explain.bytes += entry.length;
    if (!take_record(index, {bytes, entry.length}, entry)) return fell_back(index, repeat(key));
    ++request_->items[index].explain.rounds;
    return Now::kDone;
}

// From here on the key is read by message; in the second round by its timestamp.
void GetJob::read_failed(uint32_t index, Fallback reason) noexcept {
    fell_back(index, reason);
    set_[index].has_view = set_[index].has_cells = false;
    ask_later(index);
}

// Posts the next read, unless there is an obstacle.
void GetJob::go_on(uint32_t index, Fallback obstacle) noexcept {
    if (obstacle != Fallback::kNone) return read_failed(index, obstacle);
    if (!post_read(index)) read_failed(index, Fallback::kTorn);
}

void GetJob::slot_arrived(uint32_t index) noexcept {
    KeyRead& key = set_[index];
    const PartitionFacts& facts = session_.link(key.partition).facts();
    wire::Bytes bytes(session_.reads().buffers().data(key.chunk), key.address.bytes);
    request_->items[index].explain.bytes += bytes.size();
    store::SlotStatus status =
        store::parse_slot(bytes, arena_of(facts), key.fingerprint, key.address, key.view);
    if (status == store::SlotStatus::kTorn && ++key.torn < kTornMax && try_read(index)) return;
    if (status == store::SlotStatus::kTorn) return read_failed(index, Fallback::kTorn);
    if (status != store::SlotStatus::kOk) return go_on(index, search_.begin_again(key));
    if (session_.options().one_sided == OneSided::kPaper && key.view.invalid)
        return read_failed(index, Fallback::kInvalid);
    key.has_view = key.has_cells = true;
    const store::Entry* latest = key.view.latest();
    // The key has no committed version, or the slot belongs to a key with the same fingerprint.
    if (latest == nullptr) return read_failed(index, Fallback::kNoAddress);
    take_entry(index, *latest);
}

// Gets the entry's record from the bytes already read, by another read, or by message. Returns false in the
// last case.
bool GetJob::take_entry(uint32_t index, const store::Entry& entry) noexcept {
    KeyRead& key = set_[index];
    wire::Bytes extent(session_.reads().buffers().data(key.chunk), key.address.bytes);
    wire::Bytes record = store::record_within(extent, key.address, entry);
    if (!record.empty()) {
        if (take_record(index, record, entry)) return true;
        // The cell was reused during the read. The slot has changed as well: read both again.
        if (++key.torn < kTornMax && round_ == 1 && try_read(index)) return true;
        read_failed(index, Fallback::kTorn);
        return false;
    }
    if (!entry.is_cold() && read_record(index, entry)) return true;
    read_failed(index, Fallback::kLarge);
    return false;
}

bool GetJob::read_record(uint32_t index, const store::Entry& entry) noexcept {
    KeyRead& key = set_[index];
    if (entry.length > ReadBuffers::kChunk) return false;
    key.entry = entry;
    // Reuse the chunk: the slot's contents are in `view`, its cells are no longer needed.
    Link& link = session_.link(key.partition);
    if (!session_.reads().begin(link, *this,
                                {.from = at(link.facts().arena, entry.offset),
                                 .length = entry.length,
                                 .chunk = key.chunk,
                                 .index = index},
                                key.cookie))
        return false;
    key.reading = Reading::kRecord;
    key.has_cells = false;
    ++outstanding_;
    return true;
}

void GetJob::record_arrived(uint32_t index) noexcept {
    KeyRead& key = set_[index];
    wire::Bytes record(session_.reads().buffers().data(key.chunk), key.entry.length);
    request_->items[index].explain.bytes += record.size();
    if (take_record(index, record, key.entry)) return;
    // The record's memory was reused: the version is no longer the latest.
    if (++key.torn < kTornMax && round_ == 1 && try_read(index)) return;
    read_failed(index, Fallback::kTorn);
}

bool GetJob::take_record(uint32_t index, wire::Bytes record, const store::Entry& entry) noexcept {
    KeyRead& key = set_[index];
    GetAll::Item& item = request_->items[index];
    store::RecordView view;
    const PartitionFacts& facts = session_.link(key.partition).facts();
    if (store::check_record(record, arena_of(facts), item.key, entry, view) != store::SlotStatus::kOk)
        return false;
    key.timestamp = view.timestamp;
    key.expires = view.expires.value;
    key.deleted = view.tombstone;
    key.metadata.assign(view.metadata.begin(), view.metadata.end());
    item.value.assign(reinterpret_cast<const char*>(view.value.data()), view.value.size());
    search_.remember(key);
    item.explain.path = Path::kOneSided;
    ++session_.statistics().reads_one_sided;
    session_.link(key.partition).count_one_sided();
    return true;
}

// Round 2 of a key whose slot was read in round 1. The slot may show the required version, committed or
// prepared, and often its record was read with it.
bool GetJob::answer_from_view(uint32_t index) noexcept {
    KeyRead& key = set_[index];
    if (!key.has_view || session_.options().one_sided != OneSided::kOn) return false;
    const store::Entry* entry = key.view.find(key.required);
    if (entry == nullptr || entry->is_cold()) return false;
    if (key.chunk == ReadBuffers::kNone) return record_now(index, *entry) == Now::kDone;
    if (key.has_cells) {
        wire::Bytes extent(session_.reads().buffers().data(key.chunk), key.address.bytes);
        wire::Bytes record = store::record_within(extent, key.address, *entry);
        if (!record.empty()) return take_record(index, record, *entry);
    }
    return read_record(index, *entry);
}

}  // namespace wss::kv
