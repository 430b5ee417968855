// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/slot_search.h"

#include <utility>

#include "lib/kv/client/session.h"

namespace wss::kv {

Fallback SlotSearch::begin(ReadSet::KeyRead& key) noexcept {
    Link& link = session_.link(key.partition);
    key.by_index = false;
    if (session_.addresses().find(key.fingerprint, link.facts().arena_epoch, key.address))
        return take_address(key);
    return look_up(key, key.lookup.begin(key.fingerprint, link.index_facts()));
}

Fallback SlotSearch::take_bucket(ReadSet::KeyRead& key, const std::byte* bytes) noexcept {
    Link& link = session_.link(key.partition);
    const store::ArenaView arena{.bytes = link.facts().arena_bytes, .epoch = link.facts().arena_epoch};
    ++session_.statistics().index_reads;
    return look_up(key,
                   key.lookup.arrived({bytes, store::kBucketBytes}, arena, link.index_facts(), key.address));
}

Fallback SlotSearch::begin_again(ReadSet::KeyRead& key) noexcept {
    const store::IndexFacts& facts = session_.link(key.partition).index_facts();
    session_.addresses().forget(key.fingerprint);
    const bool again = std::exchange(key.by_index, true);
    const IndexLookup::Next next = again ? key.lookup.again(facts) : key.lookup.begin(key.fingerprint, facts);
    return next == IndexLookup::Next::kRead ? look_up(key, next) : Fallback::kStale;
}

void SlotSearch::remember(const ReadSet::KeyRead& key) noexcept {
    if (!key.by_index) return;
    const PartitionFacts& facts = session_.link(key.partition).facts();
    session_.addresses().put(key.fingerprint, facts.arena_epoch, key.address);
}

Fallback SlotSearch::look_up(ReadSet::KeyRead& key, IndexLookup::Next next) noexcept {
    switch (next) {
        case IndexLookup::Next::kRead:
            key.wanted = ReadSet::Reading::kBucket;
            return Fallback::kNone;
        case IndexLookup::Next::kFound:
            key.by_index = true;
            return take_address(key);
        case IndexLookup::Next::kAbsent:
            return key.by_index ? Fallback::kStale : Fallback::kNoAddress;
        default:
            return Fallback::kTorn;
    }
}

Fallback SlotSearch::take_address(ReadSet::KeyRead& key) noexcept {
    const PartitionFacts& facts = session_.link(key.partition).facts();
    key.wanted = ReadSet::Reading::kSlot;
    const bool fits = key.address.bytes <= ReadBuffers::kChunk && key.address.offset <= facts.arena_bytes &&
                      key.address.bytes <= facts.arena_bytes - key.address.offset;
    return fits ? Fallback::kNone : Fallback::kLarge;
}

}  // namespace wss::kv
