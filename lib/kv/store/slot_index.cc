// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/slot_index.h"

#include <algorithm>
#include <bit>

#include "lib/base/assert.h"

namespace wss::kv::store {
namespace {

uint32_t depth_of(uint32_t group, uint32_t groups) {
    const auto depth = static_cast<uint32_t>(std::bit_width(groups) - 1);
    const uint32_t full = 1u << depth;
    return group < groups - full || group >= full ? depth + 1 : depth;
}

}  // namespace

// The entries of a group, by bucket.
struct SlotIndex::Group {
    uint32_t number = 0;
    uint32_t depth = 0;
    std::array<std::array<BucketEntry, kBucketEntries>, kGroupBuckets> buckets{};

    BucketEntry* find(uint64_t tag, const SlotAddress& slot, uint32_t& bucket) {
        for (uint32_t distance = 0; distance < kGroupBuckets; distance++) {
            bucket = home_of(tag) ^ distance;
            for (BucketEntry& entry : buckets[bucket])
                if (entry == BucketEntry{tag, slot}) return &entry;
        }
        return nullptr;
    }
    // Returns the bucket used; kGroupBuckets: all are full.
    uint32_t add(const BucketEntry& added) {
        for (uint32_t distance = 0; distance < kGroupBuckets; distance++) {
            const uint32_t bucket = home_of(added.tag) ^ distance;
            for (BucketEntry& entry : buckets[bucket]) {
                if (!entry.is_free()) continue;
                entry = added;
                return bucket;
            }
        }
        return kGroupBuckets;
    }
    uint32_t spilled(uint32_t home) const {
        uint32_t mask = 0;
        for (uint32_t distance = 1; distance < kGroupBuckets; distance++)
            for (const BucketEntry& entry : buckets[home ^ distance])
                if (!entry.is_free() && home_of(entry.tag) == home) mask |= 1u << distance;
        return mask;
    }
};

SlotIndex::SlotIndex(std::span<std::byte> memory, uint64_t epoch)
    : memory_(memory),
      epoch_(epoch),
      groups_max_(static_cast<uint32_t>(std::min(memory.size() / kGroupBytes, size_t{1} << kGroupBitsMax))) {
    if (groups_max_ == 0) return;
    groups_ = 1;
    for (uint32_t bucket = 0; bucket < kGroupBuckets; bucket++) publish({}, bucket);
}

SlotIndex::Group SlotIndex::load(uint32_t number) const {
    Group group{.number = number, .depth = depth_of(number, groups_)};
    for (uint32_t bucket = 0; bucket < kGroupBuckets; bucket++)
        load_entries(memory_.subspan(bucket_offset(number, bucket), kBucketBytes), group.buckets[bucket]);
    return group;
}

void SlotIndex::publish(const Group& group, uint32_t bucket) {
    const BucketView view{.group = group.number,
                          .depth = group.depth,
                          .number = bucket,
                          .spilled = group.spilled(bucket),
                          .entries = group.buckets[bucket]};
    std::array<std::byte, kBucketBytes> image;
    encode_bucket(view, epoch_, image);
    copy_to_shared(memory_.data() + bucket_offset(group.number, bucket), image.data(), image.size());
}

bool SlotIndex::insert(uint64_t fingerprint, const SlotAddress& slot) {
    if (groups_ == 0) return false;
    WSS_ASSERT(slot.offset % kSlotUnit == 0 && slot.bytes % kSlotUnit == 0, "an entry names whole units");
    if (entries_ >= kSplitAbove * groups_ && groups_ < groups_max_) split();
    const uint64_t tag = tag_of(fingerprint);
    Group group = load(group_of(tag, groups_));
    const uint32_t bucket = group.add({tag, slot});
    if (bucket == kGroupBuckets) return false;
    publish(group, bucket);
    if (bucket != home_of(tag)) publish(group, home_of(tag));
    entries_++;
    return true;
}

void SlotIndex::erase(uint64_t fingerprint, const SlotAddress& slot) {
    const uint64_t tag = tag_of(fingerprint);
    Group group = load(group_of(tag, groups_));
    uint32_t bucket = 0;
    BucketEntry* entry = group.find(tag, slot, bucket);
    WSS_ASSERT(entry != nullptr, "an inserted entry is in the group of its tag");
    *entry = {};
    publish(group, bucket);
    if (bucket != home_of(tag)) publish(group, home_of(tag));
    entries_--;
}

// Moves half of the next group's keys to a new group. The new group is published before the old one shows the
// split.
void SlotIndex::split() {
    const uint32_t full = std::bit_floor(groups_);
    const Group old = load(groups_ - full);
    Group low{.number = old.number, .depth = old.depth + 1};
    Group high{.number = groups_, .depth = low.depth};
    for (const auto& bucket : old.buckets)
        for (const BucketEntry& entry : bucket) {
            if (entry.is_free()) continue;
            Group& to = group_at_depth(entry.tag, low.depth) == low.number ? low : high;
            to.add(entry);
        }
    for (const Group* group : {&high, &low})
        for (uint32_t bucket = 0; bucket < kGroupBuckets; bucket++) publish(*group, bucket);
    groups_++;
}

}  // namespace wss::kv::store
