// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/index_format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>

#include "lib/kv/store/fields.h"

namespace wss::kv::store {
namespace {

constexpr size_t kChecksum = 0;
constexpr size_t kGroup = 8;
constexpr size_t kDepth = 12;
constexpr size_t kNumber = 13;
constexpr size_t kSpilled = 14;
constexpr size_t kZero = 15;
constexpr size_t kFirstEntry = 16;
constexpr size_t kBucketEntryBytes = 16;
static_assert(kFirstEntry + kBucketEntries * kBucketEntryBytes == kBucketBytes);

constexpr uint32_t kSpilledMask = ((1u << kGroupBuckets) - 1) & ~1u;

uint64_t checksum_of(Bytes bucket, uint64_t epoch) noexcept {
    return XXH3_64bits_withSeed(bucket.data() + kGroup, kBucketBytes - kGroup, epoch);
}

// First word, from the top: tag, upper eight bits of the offset, bytes. Second word: the rest of the offset,
// the incarnation.
BucketEntry load_entry(const std::byte* at) noexcept {
    const auto first = load<uint64_t>(at);
    if ((first & 0xffff) == 0) return {};
    const auto second = load<uint64_t>(at + 8);
    const uint64_t units = (first >> 16 & 0xff) << 32 | second >> 32;
    return {.tag = tag_of(first),
            .slot = {.offset = units * kSlotUnit,
                     .bytes = static_cast<uint32_t>((first & 0xffff) * kSlotUnit),
                     .incarnation = static_cast<uint32_t>(second)}};
}

void store_entry(std::byte* at, const BucketEntry& entry) noexcept {
    const uint64_t units = entry.slot.offset / kSlotUnit;
    store(at, entry.tag << 24 | (units >> 32 & 0xff) << 16 | entry.slot.bytes / kSlotUnit);
    store(at + 8, units << 32 | entry.slot.incarnation);
}

bool is_sane(const BucketEntry& entry, const ArenaView& arena) noexcept {
    if (entry.is_free()) return true;
    return entry.slot.bytes >= kSlotHeaderBytes && entry.slot.offset <= arena.bytes &&
           entry.slot.bytes <= arena.bytes - entry.slot.offset;
}

}  // namespace

uint32_t group_of(uint64_t tag, uint32_t groups) noexcept {
    const auto depth = static_cast<uint32_t>(std::bit_width(groups) - 1);
    // Groups below `groups` - 2^depth are already split.
    const uint32_t deeper = group_at_depth(tag, depth + 1);
    return deeper < groups ? deeper : group_at_depth(tag, depth);
}

SlotStatus parse_bucket(Bytes bucket, const ArenaView& arena, uint32_t group, uint32_t number,
                        BucketView& view) noexcept {
    if (bucket.size() != kBucketBytes) return SlotStatus::kBad;
    const std::byte* at = bucket.data();
    if (load<uint64_t>(at + kChecksum) != checksum_of(bucket, arena.epoch)) return SlotStatus::kTorn;
    view.group = load<uint32_t>(at + kGroup);
    view.depth = load<uint8_t>(at + kDepth);
    view.number = load<uint8_t>(at + kNumber);
    view.spilled = load<uint8_t>(at + kSpilled);
    if (view.group != group || view.number != number || view.depth > kGroupBitsMax) return SlotStatus::kBad;
    if (view.group >> view.depth != 0 || (view.spilled & ~kSpilledMask) != 0) return SlotStatus::kBad;
    if (load<uint8_t>(at + kZero) != 0) return SlotStatus::kBad;
    load_entries(bucket, view.entries);
    for (const BucketEntry& entry : view.entries)
        if (!is_sane(entry, arena)) return SlotStatus::kBad;
    return SlotStatus::kOk;
}

void encode_bucket(const BucketView& view, uint64_t epoch, std::span<std::byte, kBucketBytes> out) noexcept {
    std::byte* at = out.data();
    std::memset(at, 0, out.size());
    store(at + kGroup, view.group);
    store(at + kDepth, static_cast<uint8_t>(view.depth));
    store(at + kNumber, static_cast<uint8_t>(view.number));
    store(at + kSpilled, static_cast<uint8_t>(view.spilled));
    for (size_t i = 0; i < kBucketEntries; i++)
        if (!view.entries[i].is_free())
            store_entry(at + kFirstEntry + i * kBucketEntryBytes, view.entries[i]);
    store(at + kChecksum, checksum_of(out, epoch));
}

void load_entries(Bytes bucket, std::span<BucketEntry, kBucketEntries> entries) noexcept {
    for (size_t i = 0; i < kBucketEntries; i++)
        entries[i] = load_entry(bucket.data() + kFirstEntry + i * kBucketEntryBytes);
}

}  // namespace wss::kv::store
