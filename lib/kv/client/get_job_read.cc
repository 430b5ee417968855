// SPDX-License-Identifier: Apache-2.0
// A get_all's one-sided reads. What arrives is judged by slot_format.h; what is in doubt is asked for by
// message.
#include "lib/kv/client/get_job.h"

namespace wss::kv {

namespace {

store::ArenaView arena_of(const PartitionFacts& facts) {
    return {.bytes = facts.arena_bytes, .epoch = facts.arena_epoch};
}

}  // namespace

void GetJob::count_one_sided(uint32_t index) noexcept {
    request_->items[index].explain.path = Path::kOneSided;
    ++session_.statistics().reads_one_sided;
    session_.link(set_[index].partition).count_one_sided();
}

void GetJob::fell_back(uint32_t index, Fallback reason) noexcept {
    static constexpr uint64_t Statistics::*kCounts[] = {
        nullptr,
        &Statistics::fallback_cold,
        &Statistics::fallback_invalid,
        &Statistics::fallback_stale,
        &Statistics::fallback_torn,
        &Statistics::fallback_large,
        &Statistics::fallback_second_round,
    };
    static_assert(std::size(kCounts) == size_t(Fallback::kCount), "a counter for each reason");
    set_[index].fallback = reason;
    ++(session_.statistics().*kCounts[size_t(reason)]);
}

bool GetJob::try_read(uint32_t index) noexcept {
    Slot& slot = set_[index];
    Link& link = session_.link(slot.partition);
    if (!link.ready()) return false;
    const PartitionFacts& facts = link.facts();
    if (facts.arena_bytes == 0) return false;
    if (!session_.addresses().find(slot.fingerprint, facts.arena_epoch, slot.address)) {
        fell_back(index, Fallback::kCold);
        return false;
    }
    if (slot.address.bytes > Landing::kChunk || slot.address.offset > facts.arena_bytes ||
        slot.address.bytes > facts.arena_bytes - slot.address.offset) {
        fell_back(index, Fallback::kLarge);
        return false;
    }
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
    Slot& slot = set_[index];
    if (slot.chunk == Landing::kNone) slot.chunk = session_.reads().landing().take();
    if (slot.chunk == Landing::kNone) return false;
    if (!session_.reads().begin(session_.link(slot.partition), *this,
                                {.offset = slot.address.offset,
                                 .length = slot.address.bytes,
                                 .chunk = slot.chunk,
                                 .index = index},
                                slot.cookie))
        return false;
    slot.reading = Reading::kSlot;
    ++outstanding_;
    return true;
}

void GetJob::on_read_done(uint32_t index, bool good) noexcept {
    Slot& slot = set_[index];
    Reading what = std::exchange(slot.reading, Reading::kNone);
    --outstanding_;
    ++request_->items[index].explain.rounds;
    if (!good)
        failed_ = true;
    else if (what == Reading::kSlot)
        slot_arrived(index);
    else
        record_arrived(index);
    step_done();
}

// --- where this CPU reaches the partition's memory itself: the slot, then its record, without a turn between
// ---

GetJob::Now GetJob::read_now(uint32_t index) noexcept {
    Slot& slot = set_[index];
    for (;;) {
        slot.has_view = false;
        const std::byte* bytes =
            session_.reads().now(session_.link(slot.partition), slot.address.offset, store::kSlotHeaderBytes);
        if (bytes == nullptr) return Now::kCannot;
        Now result = judge_now(index, bytes);
        if (result != Now::kCannot) return result;
        if (++slot.torn < kTornMax) continue;
        fell_back(index, Fallback::kTorn);
        return Now::kByMessage;
    }
}

// kCannot: it changed while it was read.
GetJob::Now GetJob::judge_now(uint32_t index, const std::byte* bytes) noexcept {
    Slot& slot = set_[index];
    GetAll::Item& item = request_->items[index];
    item.explain.bytes += store::kSlotHeaderBytes;
    store::Verdict verdict =
        store::parse_slot({bytes, store::kSlotHeaderBytes}, arena_of(session_.link(slot.partition).facts()),
                          slot.fingerprint, slot.address, slot.view);
    if (verdict == store::Verdict::kTorn) return Now::kCannot;
    if (verdict != store::Verdict::kOk) {
        session_.addresses().forget(slot.fingerprint);
        fell_back(index, Fallback::kStale);
        return Now::kByMessage;
    }
    if (session_.options().one_sided == OneSided::kPaper && slot.view.invalid) {
        fell_back(index, Fallback::kInvalid);
        return Now::kByMessage;
    }
    slot.has_view = true;
    const store::Entry* latest = slot.view.latest();
    if (latest != nullptr) return record_now(index, *latest);
    ++item.explain.rounds;  // nobody has committed a version of this key
    count_one_sided(index);
    return Now::kDone;
}

GetJob::Now GetJob::record_now(uint32_t index, const store::Entry& entry) noexcept {
    Slot& slot = set_[index];
    const std::byte* bytes =
        entry.is_cold() ? nullptr
                        : session_.reads().now(session_.link(slot.partition), entry.offset, entry.length);
    if (bytes == nullptr) {
        slot.has_view = false;
        fell_back(index, Fallback::kLarge);
        return Now::kByMessage;
    }
    request_->items[index].explain.bytes += entry.length;
    if (!take_record(index, {bytes, entry.length}, entry)) return Now::kCannot;
    ++request_->items[index].explain.rounds;
    return Now::kDone;
}

// From here on the key is asked for by message; in the second round by its timestamp.
void GetJob::read_failed(uint32_t index, Fallback reason) noexcept {
    fell_back(index, reason);
    set_[index].has_view = set_[index].has_cells = false;
    ask_later(index);
}

void GetJob::slot_arrived(uint32_t index) noexcept {
    Slot& slot = set_[index];
    const PartitionFacts& facts = session_.link(slot.partition).facts();
    wire::Bytes bytes(session_.reads().landing().data(slot.chunk), slot.address.bytes);
    request_->items[index].explain.bytes += bytes.size();
    store::Verdict verdict =
        store::parse_slot(bytes, arena_of(facts), slot.fingerprint, slot.address, slot.view);
    if (verdict == store::Verdict::kTorn && ++slot.torn < kTornMax && try_read(index)) return;
    if (verdict == store::Verdict::kTorn) return read_failed(index, Fallback::kTorn);
    if (verdict != store::Verdict::kOk) {
        session_.addresses().forget(slot.fingerprint);
        return read_failed(index, Fallback::kStale);
    }
    if (session_.options().one_sided == OneSided::kPaper && slot.view.invalid)
        return read_failed(index, Fallback::kInvalid);
    slot.has_view = slot.has_cells = true;
    const store::Entry* latest = slot.view.latest();
    if (latest == nullptr) {
        // Nobody has committed a version of this key.
        count_one_sided(index);
        return;
    }
    take_entry(index, *latest);
}

// Gets the entry's record: from what is here, by another read, or by message. False: by message.
bool GetJob::take_entry(uint32_t index, const store::Entry& entry) noexcept {
    Slot& slot = set_[index];
    wire::Bytes extent(session_.reads().landing().data(slot.chunk), slot.address.bytes);
    wire::Bytes record = store::record_within(extent, slot.address, entry);
    if (!record.empty()) {
        if (take_record(index, record, entry)) return true;
        // The cell was reused while it was read. The slot has changed as well: read both again.
        if (++slot.torn < kTornMax && round_ == 1 && try_read(index)) return true;
        read_failed(index, Fallback::kTorn);
        return false;
    }
    if (!entry.is_cold() && read_record(index, entry)) return true;
    read_failed(index, Fallback::kLarge);
    return false;
}

bool GetJob::read_record(uint32_t index, const store::Entry& entry) noexcept {
    Slot& slot = set_[index];
    if (entry.length > Landing::kChunk) return false;
    slot.entry = entry;
    // Into the same chunk: what the slot said is in `view`, its cells are no longer needed.
    if (!session_.reads().begin(
            session_.link(slot.partition), *this,
            {.offset = entry.offset, .length = entry.length, .chunk = slot.chunk, .index = index},
            slot.cookie))
        return false;
    slot.reading = Reading::kRecord;
    slot.has_cells = false;
    ++outstanding_;
    return true;
}

void GetJob::record_arrived(uint32_t index) noexcept {
    Slot& slot = set_[index];
    wire::Bytes record(session_.reads().landing().data(slot.chunk), slot.entry.length);
    request_->items[index].explain.bytes += record.size();
    if (take_record(index, record, slot.entry)) return;
    // Its memory was reused: the version is no longer the latest.
    if (++slot.torn < kTornMax && round_ == 1 && try_read(index)) return;
    read_failed(index, Fallback::kTorn);
}

bool GetJob::take_record(uint32_t index, wire::Bytes record, const store::Entry& entry) noexcept {
    Slot& slot = set_[index];
    GetAll::Item& item = request_->items[index];
    store::RecordView view;
    const PartitionFacts& facts = session_.link(slot.partition).facts();
    if (store::check_record(record, arena_of(facts), item.key, entry, view) != store::Verdict::kOk)
        return false;
    slot.timestamp = view.timestamp;
    slot.expires = view.expires.value;
    slot.deleted = view.tombstone;
    slot.metadata.assign(view.metadata.begin(), view.metadata.end());
    item.value.assign(reinterpret_cast<const char*>(view.value.data()), view.value.size());
    count_one_sided(index);
    return true;
}

// Round 2 of a key whose slot was read in round 1: the slot may show the version that is required, committed
// or prepared, and often its record came with it.
bool GetJob::answer_from_view(uint32_t index) noexcept {
    Slot& slot = set_[index];
    if (!slot.has_view || session_.options().one_sided != OneSided::kOn) return false;
    const store::Entry* entry = slot.view.find(slot.required);
    if (entry == nullptr || entry->is_cold()) return false;
    if (slot.chunk == Landing::kNone) return record_now(index, *entry) == Now::kDone;
    if (slot.has_cells) {
        wire::Bytes extent(session_.reads().landing().data(slot.chunk), slot.address.bytes);
        wire::Bytes record = store::record_within(extent, slot.address, *entry);
        if (!record.empty()) return take_record(index, record, *entry);
    }
    return read_record(index, *entry);
}

}  // namespace wss::kv
