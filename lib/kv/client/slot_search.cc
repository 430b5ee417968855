// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/slot_search.h"

#include <utility>

#include "lib/kv/client/session.h"

namespace wss::kv {

Fallback SlotSearch::begin(ReadSet::Slot& slot) noexcept {
    Link& link = session_.link(slot.partition);
    slot.by_index = false;
    if (session_.addresses().find(slot.fingerprint, link.facts().arena_epoch, slot.address))
        return take_address(slot);
    return look_up(slot, slot.lookup.begin(slot.fingerprint, link.index_facts()));
}

Fallback SlotSearch::take_bucket(ReadSet::Slot& slot, const std::byte* bytes) noexcept {
    Link& link = session_.link(slot.partition);
    const store::ArenaView arena{.bytes = link.facts().arena_bytes, .epoch = link.facts().arena_epoch};
    ++session_.statistics().index_reads;
    return look_up(
        slot, slot.lookup.arrived({bytes, store::kBucketBytes}, arena, link.index_facts(), slot.address));
}

Fallback SlotSearch::begin_again(ReadSet::Slot& slot) noexcept {
    const store::IndexFacts& facts = session_.link(slot.partition).index_facts();
    session_.addresses().forget(slot.fingerprint);
    const bool again = std::exchange(slot.by_index, true);
    const IndexLookup::Next next =
        again ? slot.lookup.again(facts) : slot.lookup.begin(slot.fingerprint, facts);
    return next == IndexLookup::Next::kRead ? look_up(slot, next) : Fallback::kStale;
}

void SlotSearch::remember(const ReadSet::Slot& slot) noexcept {
    if (!slot.by_index) return;
    const PartitionFacts& facts = session_.link(slot.partition).facts();
    session_.addresses().put(slot.fingerprint, facts.arena_epoch, slot.address);
}

Fallback SlotSearch::look_up(ReadSet::Slot& slot, IndexLookup::Next next) noexcept {
    switch (next) {
        case IndexLookup::Next::kRead:
            slot.wanted = ReadSet::Reading::kBucket;
            return Fallback::kNone;
        case IndexLookup::Next::kFound:
            slot.by_index = true;
            return take_address(slot);
        case IndexLookup::Next::kAbsent:
            return slot.by_index ? Fallback::kStale : Fallback::kCold;
        default:
            return Fallback::kTorn;
    }
}

Fallback SlotSearch::take_address(ReadSet::Slot& slot) noexcept {
    const PartitionFacts& facts = session_.link(slot.partition).facts();
    slot.wanted = ReadSet::Reading::kSlot;
    const bool fits = slot.address.bytes <= Landing::kChunk && slot.address.offset <= facts.arena_bytes &&
                      slot.address.bytes <= facts.arena_bytes - slot.address.offset;
    return fits ? Fallback::kNone : Fallback::kLarge;
}

}  // namespace wss::kv
