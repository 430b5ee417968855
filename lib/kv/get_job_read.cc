// SPDX-License-Identifier: Apache-2.0
// A get_all's one-sided reads. What arrives is judged by slot_format.h; what is in doubt is asked for by
// message.
#include "lib/kv/get_job.h"

namespace wss::kv {

namespace {

store::ArenaView arena_of(const PartitionFacts& facts) {
    return {.bytes = facts.arena_bytes, .epoch = facts.arena_epoch};
}

}  // namespace

bool GetJob::try_read(uint32_t index) noexcept {
    Slot& slot = slots_[index];
    Link& link = session_.link(slot.partition);
    if (!link.ready()) return false;
    const PartitionFacts& facts = link.facts();
    if (facts.arena_bytes == 0) return false;
    if (!session_.addresses().find(slot.fingerprint, facts.arena_epoch, slot.address)) {
        ++session_.statistics().fallback_cold;
        return false;
    }
    if (slot.address.bytes > Landing::kChunk || slot.address.offset > facts.arena_bytes ||
        slot.address.bytes > facts.arena_bytes - slot.address.offset) {
        ++session_.statistics().fallback_large;
        return false;
    }
    if (slot.chunk == Landing::kNone) slot.chunk = session_.landing().take();
    if (slot.chunk == Landing::kNone) return false;
    if (!session_.begin_read(*this,
                             {.partition = slot.partition,
                              .offset = slot.address.offset,
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
    Slot& slot = slots_[index];
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

// From here on the key is asked for by message; in the second round by its timestamp.
void GetJob::read_failed(uint32_t index, uint64_t Statistics::*reason) noexcept {
    ++(session_.statistics().*reason);
    slots_[index].has_view = slots_[index].has_cells = false;
    ask_later(index);
}

void GetJob::slot_arrived(uint32_t index) noexcept {
    Slot& slot = slots_[index];
    const GetAll::Item& item = request_->items[index];
    const PartitionFacts& facts = session_.link(slot.partition).facts();
    wire::Bytes bytes(session_.landing().data(slot.chunk), slot.address.bytes);
    request_->items[index].explain.bytes += bytes.size();
    store::Verdict verdict = store::parse_slot(bytes, arena_of(facts), item.key, slot.address, slot.view);
    if (verdict == store::Verdict::kTorn && ++slot.torn < kTornMax && try_read(index)) return;
    if (verdict == store::Verdict::kTorn) return read_failed(index, &Statistics::fallback_torn);
    if (verdict != store::Verdict::kOk) {
        session_.addresses().forget(slot.fingerprint);
        return read_failed(index, &Statistics::fallback_stale);
    }
    if (session_.options().one_sided == OneSided::kPaper && slot.view.invalid)
        return read_failed(index, &Statistics::fallback_invalid);
    slot.has_view = slot.has_cells = true;
    const store::Entry* latest = slot.view.latest();
    if (latest == nullptr) {
        // Nobody has committed a version of this key.
        request_->items[index].explain.path = Path::kOneSided;
        ++session_.statistics().reads_one_sided;
        return;
    }
    take_entry(index, *latest);
}

// Gets the entry's record: from what is here, by another read, or by message. False: by message.
bool GetJob::take_entry(uint32_t index, const store::Entry& entry) noexcept {
    Slot& slot = slots_[index];
    wire::Bytes extent(session_.landing().data(slot.chunk), slot.address.bytes);
    wire::Bytes record = store::record_within(extent, slot.address, entry);
    if (!record.empty()) {
        if (take_record(index, record, entry)) return true;
        // The cell was reused while it was read. The slot has changed as well: read both again.
        if (++slot.torn < kTornMax && round_ == 1 && try_read(index)) return true;
        read_failed(index, &Statistics::fallback_torn);
        return false;
    }
    if (!entry.is_cold() && read_record(index, entry)) return true;
    read_failed(index, &Statistics::fallback_large);
    return false;
}

bool GetJob::read_record(uint32_t index, const store::Entry& entry) noexcept {
    Slot& slot = slots_[index];
    if (entry.length > Landing::kChunk) return false;
    slot.entry = entry;
    // Into the same chunk: what the slot said is in `view`, its cells are no longer needed.
    if (!session_.begin_read(*this,
                             {.partition = slot.partition,
                              .offset = entry.offset,
                              .length = entry.length,
                              .chunk = slot.chunk,
                              .index = index},
                             slot.cookie))
        return false;
    slot.reading = Reading::kRecord;
    slot.has_cells = false;
    ++outstanding_;
    return true;
}

void GetJob::record_arrived(uint32_t index) noexcept {
    Slot& slot = slots_[index];
    wire::Bytes record(session_.landing().data(slot.chunk), slot.entry.length);
    request_->items[index].explain.bytes += record.size();
    if (take_record(index, record, slot.entry)) return;
    // Its memory was reused: the version is no longer the latest.
    if (++slot.torn < kTornMax && round_ == 1 && try_read(index)) return;
    read_failed(index, &Statistics::fallback_torn);
}

bool GetJob::take_record(uint32_t index, wire::Bytes record, const store::Entry& entry) noexcept {
    Slot& slot = slots_[index];
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
    item.explain.path = Path::kOneSided;
    ++session_.statistics().reads_one_sided;
    return true;
}

// Round 2 of a key whose slot was read in round 1: the slot may show the version that is required, committed
// or prepared, and often its record came with it.
bool GetJob::answer_from_view(uint32_t index) noexcept {
    Slot& slot = slots_[index];
    if (!slot.has_view || session_.options().one_sided != OneSided::kOn) return false;
    const store::Entry* entry = slot.view.find(slot.required);
    if (entry == nullptr || entry->is_cold()) return false;
    if (slot.has_cells) {
        wire::Bytes extent(session_.landing().data(slot.chunk), slot.address.bytes);
        wire::Bytes record = store::record_within(extent, slot.address, *entry);
        if (!record.empty()) return take_record(index, record, *entry);
    }
    return read_record(index, *entry);
}

}  // namespace wss::kv
