// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/index_lookup.h"

#include <algorithm>
#include <bit>

namespace wss::kv {

IndexLookup::Next IndexLookup::begin(uint64_t fingerprint, const store::IndexFacts& facts) noexcept {
    tag_ = store::tag_of(fingerprint);
    reads_ = 0;
    found_ = refused_ = {};
    return restart(facts);
}

IndexLookup::Next IndexLookup::again(const store::IndexFacts& facts) noexcept {
    refused_ = found_;
    return restart(facts);
}

IndexLookup::Next IndexLookup::restart(const store::IndexFacts& facts) noexcept {
    return facts.groups == 0 ? Next::kAbsent : go_to(store::group_of(tag_, facts.groups), facts);
}

IndexLookup::Next IndexLookup::go_to(uint32_t group, const store::IndexFacts& facts) noexcept {
    group_ = group;
    distance_ = spilled_ = 0;
    const bool is_inside = group < facts.bytes / store::kGroupBytes;
    return is_inside && reads_ < kReadsMax ? Next::kRead : Next::kTorn;
}

// A group of that depth resulted from a split, so the other half exists as well. Returns false if that half
// would lie outside the index.
bool IndexLookup::learn(const store::BucketView& view, store::IndexFacts& facts) noexcept {
    if (view.depth == 0) return true;
    const uint32_t sibling = view.group | 1u << (view.depth - 1);
    if (sibling >= facts.bytes / store::kGroupBytes) return false;
    facts.groups = std::max(facts.groups, sibling + 1);
    return true;
}

IndexLookup::Next IndexLookup::arrived(store::Bytes bucket, const store::ArenaView& arena,
                                       store::IndexFacts& facts, store::SlotAddress& found) noexcept {
    reads_++;
    store::BucketView view;
    switch (store::parse_bucket(bucket, arena, group_, home() ^ distance_, view)) {
        case store::SlotStatus::kOk:
            break;
        case store::SlotStatus::kTorn:
            return reads_ < kReadsMax ? Next::kRead : Next::kTorn;
        default:
            return Next::kTorn;
    }
    if (!learn(view, facts)) return Next::kTorn;
    // The group was split: the key may be in one of its descendants.
    if (store::group_at_depth(tag_, view.depth) != group_) return restart(facts);
    for (const store::BucketEntry& entry : view.entries) {
        if (entry.is_free() || entry.tag != tag_ || entry.slot == refused_) continue;
        found = found_ = entry.slot;
        return Next::kFound;
    }
    if (distance_ == 0) spilled_ = view.spilled;
    if (spilled_ == 0) return Next::kAbsent;
    distance_ = static_cast<uint32_t>(std::countr_zero(spilled_));
    spilled_ &= spilled_ - 1;
    return reads_ < kReadsMax ? Next::kRead : Next::kTorn;
}

}  // namespace wss::kv
