// SPDX-License-Identifier: Apache-2.0
// The bucket index of a partition, in which remote readers find the slot of a key without a message to the
// server.
//
// The index is an array of *groups* of four *buckets* in registered memory. A bucket is two cache lines.
// Numbers are little-endian.
//
//   bucket:  checksum (8; of the rest, seeded with the arena's epoch) | group (4) | depth (1) | number in the
//            group (1) | spilled (1) | 0 (1) | kBucketEntries entries of 16 bytes
//   entry:   tag (40 bits) | offset of the slot / 16 (40 bits) | its bytes / 16 (16 bits; 0: free) | its
//            incarnation (32 bits)
//
// A key's *tag* is the upper 40 bits of its fingerprint. The tag's low two bits select the key's home bucket
// in its group, and the bits above them the group. If the home bucket is full, the entry is in another bucket
// of the group, home ^ 1, ^ 2 or ^ 3, and bit 1, 2 or 3 of the home's `spilled` is set.
//
// The index grows by linear hashing: one group after another is split in two, and nothing else moves. A
// bucket stores the *depth* of its group: how many bits of the tag select it now. A reader that assumes fewer
// bits finds the key's former group, sees that it was split, and continues at the key's current group. The
// number of groups only grows.
//
// An entry is a hint: it names a slot, and the slot proves which key it belongs to (slot_format.h V1–V3).
//
//   KX1  The checksum detects torn buckets, buckets of an earlier run of the server, and memory that is not a
//        bucket. Only buckets ever lie in this memory.
//   KX2  A slot is published before its entry, and the entry is removed before the slot is freed. A late
//        reader finds a slot with another fingerprint or incarnation.
//   KX3  Two keys may have equal tags, or equal fingerprints. The record repeats the key: only a record that
//        was read and checked proves the key. A slot without a committed version does not, as it may be the
//        other key's.
//   KX4  An absent entry proves nothing: use RPC. The entry may be moving to another bucket, there may have
//        been no room for it, or its key is only on disk.
//
// Thread-safety: pure functions on the caller's memory.
#pragma once

#include <array>

#include "lib/kv/store/slot_format.h"

namespace wss::kv::store {

constexpr uint16_t kIndexLayout = 1;
constexpr size_t kBucketBytes = 128;
constexpr size_t kBucketEntries = 7;
constexpr uint32_t kGroupBuckets = 4;
constexpr size_t kGroupBytes = kGroupBuckets * kBucketBytes;
constexpr uint32_t kGroupBitsMax = 24;

// A reader's facts about an index.
struct IndexFacts {
    uint64_t bytes = 0;   // maximum size
    uint32_t groups = 0;  // lower bound of the groups in use; 0: no index
};

struct BucketEntry {
    uint64_t tag = 0;
    SlotAddress slot;  // bytes 0: the entry is free
    bool is_free() const { return slot.bytes == 0; }
    bool operator==(const BucketEntry&) const = default;
};

struct BucketView {
    uint32_t group = 0;
    uint32_t depth = 0;
    uint32_t number = 0;   // position in the group
    uint32_t spilled = 0;  // bit i: bucket `number` ^ i has an entry whose home is this bucket
    std::array<BucketEntry, kBucketEntries> entries{};
    bool operator==(const BucketView&) const = default;
};

constexpr uint64_t tag_of(uint64_t fingerprint) {
    return fingerprint >> 24;
}
constexpr uint32_t home_of(uint64_t tag) {
    return tag % kGroupBuckets;
}
// The group at this depth.
constexpr uint32_t group_at_depth(uint64_t tag, uint32_t depth) {
    return static_cast<uint32_t>(tag / kGroupBuckets & ((uint64_t{1} << depth) - 1));
}
// The group if there are `groups` groups (at least one).
uint32_t group_of(uint64_t tag, uint32_t groups) noexcept;
constexpr uint64_t bucket_offset(uint32_t group, uint32_t number) {
    return uint64_t{group} * kGroupBytes + number * kBucketBytes;
}

// `bucket` has the kBucketBytes that were read at that place. Returns kOk, kTorn or kBad; with kOk the slots
// are within the arena.
SlotStatus parse_bucket(Bytes bucket, const ArenaView& arena, uint32_t group, uint32_t number,
                        BucketView& view) noexcept;

// --- the server's side

// Offsets and sizes of slots are multiples of 16 bytes.
constexpr uint64_t kSlotUnit = 16;
void encode_bucket(const BucketView& view, uint64_t epoch, std::span<std::byte, kBucketBytes> out) noexcept;
// The entries of the server's own bucket, without checks.
void load_entries(Bytes bucket, std::span<BucketEntry, kBucketEntries> entries) noexcept;

}  // namespace wss::kv::store
