// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/slot_format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>

#include "lib/base/assert.h"
#include "lib/kv/mutation.h"
#include "lib/kv/store/fields.h"

namespace wss::kv::store {
namespace {

// Offsets in the slot's fixed part.
constexpr size_t kSlotChecksum = 0;
constexpr size_t kSlotFingerprint = 8;
constexpr size_t kSlotIncarnation = 16;
constexpr size_t kSlotSequence = 20;
constexpr size_t kSlotFlags = 24;
constexpr size_t kSlotCount = 25;
constexpr size_t kSlotEntries = 32;
constexpr uint8_t kFlagUsed = 1;
constexpr uint8_t kFlagInvalid = 2;
constexpr uint8_t kFlagIncomplete = 4;

// Offsets in an entry.
constexpr size_t kEntryTimestamp = 0;
constexpr size_t kEntryExpires = 8;
constexpr size_t kEntryChecksum = 16;
constexpr size_t kEntryOffset = 24;
constexpr size_t kEntryLength = 32;
constexpr size_t kEntryState = 36;
constexpr size_t kEntryFlags = 37;

// Offsets in a record.
constexpr size_t kRecordChecksum = 0;
constexpr size_t kRecordFingerprint = 8;
constexpr size_t kRecordTimestamp = 16;
constexpr size_t kRecordExpires = 24;
constexpr size_t kRecordValueLength = 32;
constexpr size_t kRecordMetadataLength = 36;
constexpr size_t kRecordKeyLength = 40;
constexpr size_t kRecordFlags = 42;
constexpr uint8_t kFlagTombstone = 1;

uint64_t checksum_of(Bytes bytes, uint64_t epoch) noexcept {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), epoch);
}

Entry load_entry(const std::byte* at) noexcept {
    Entry entry;
    entry.timestamp.value = load<uint64_t>(at + kEntryTimestamp);
    entry.expires.value = load<uint64_t>(at + kEntryExpires);
    entry.checksum = load<uint64_t>(at + kEntryChecksum);
    entry.offset = load<uint64_t>(at + kEntryOffset);
    entry.length = load<uint32_t>(at + kEntryLength);
    entry.state = static_cast<EntryState>(load<uint8_t>(at + kEntryState));
    entry.tombstone = load<uint8_t>(at + kEntryFlags) & kFlagTombstone;
    return entry;
}

void store_entry(std::byte* at, const Entry& entry) noexcept {
    store(at + kEntryTimestamp, entry.timestamp.value);
    store(at + kEntryExpires, entry.expires.value);
    store(at + kEntryChecksum, entry.checksum);
    store(at + kEntryOffset, entry.offset);
    store(at + kEntryLength, entry.length);
    store(at + kEntryState, static_cast<uint8_t>(entry.state));
    store(at + kEntryFlags, static_cast<uint8_t>(entry.tombstone ? kFlagTombstone : 0));
}

bool is_sane(const Entry& entry, const ArenaView& arena) noexcept {
    if (entry.timestamp.is_none()) return false;
    if (entry.state < EntryState::kLatest || entry.state > EntryState::kSuperseded) return false;
    if (entry.is_cold()) return true;
    if (entry.length < kRecordHeaderBytes || entry.length > kRecordMax) return false;
    return entry.offset % 8 == 0 && entry.offset <= arena.bytes && entry.length <= arena.bytes - entry.offset;
}

// Only the first entry may be the latest, and timestamps are distinct.
bool is_sane(const SlotView& view, const ArenaView& arena) noexcept {
    for (uint32_t i = 0; i < view.entry_count; i++) {
        const Entry& entry = view.entries[i];
        if (!is_sane(entry, arena)) return false;
        if (i > 0 && entry.state == EntryState::kLatest) return false;
        for (uint32_t j = 0; j < i; j++)
            if (view.entries[j].timestamp == entry.timestamp) return false;
    }
    return true;
}

}  // namespace

std::string_view to_string(SlotStatus status) {
    switch (status) {
        case SlotStatus::kOk:
            return "ok";
        case SlotStatus::kTorn:
            return "torn";
        case SlotStatus::kStale:
            return "stale";
        case SlotStatus::kBad:
            return "bad";
    }
    return "?";
}

const Entry* SlotView::latest() const {
    return entry_count > 0 && entries[0].state == EntryState::kLatest ? entries.data() : nullptr;
}

const Entry* SlotView::find(Timestamp timestamp) const {
    for (uint32_t i = 0; i < entry_count; i++)
        if (entries[i].timestamp == timestamp) return &entries[i];
    return nullptr;
}

SlotStatus parse_slot(Bytes slot, const ArenaView& arena, uint64_t fingerprint, const SlotAddress& expected,
                      SlotView& view) noexcept {
    if (slot.size() < kSlotHeaderBytes) return SlotStatus::kBad;
    slot = slot.first(kSlotHeaderBytes);
    const std::byte* at = slot.data();
    if (load<uint64_t>(at + kSlotChecksum) != checksum_of(slot.subspan(8), arena.epoch))
        return SlotStatus::kTorn;
    const auto flags = load<uint8_t>(at + kSlotFlags);
    view.fingerprint = load<uint64_t>(at + kSlotFingerprint);
    view.incarnation = load<uint32_t>(at + kSlotIncarnation);
    view.sequence = load<uint32_t>(at + kSlotSequence);
    view.invalid = flags & kFlagInvalid;
    view.incomplete = flags & kFlagIncomplete;
    view.entry_count = load<uint8_t>(at + kSlotCount);
    const bool is_mine = view.fingerprint == fingerprint && view.incarnation == expected.incarnation;
    if (!(flags & kFlagUsed) || (!is_mine && !mutated(Mutation::kStaleAddress))) return SlotStatus::kStale;
    if (view.entry_count > kEntries) return SlotStatus::kBad;
    for (uint32_t i = 0; i < view.entry_count; i++)
        view.entries[i] = load_entry(at + kSlotEntries + i * kEntryBytes);
    return is_sane(view, arena) ? SlotStatus::kOk : SlotStatus::kBad;
}

bool parse_record(Bytes record, RecordView& view) noexcept {
    if (record.size() < kRecordHeaderBytes) return false;
    const std::byte* at = record.data();
    const size_t value = load<uint32_t>(at + kRecordValueLength);
    const size_t metadata = load<uint32_t>(at + kRecordMetadataLength);
    const size_t key = load<uint16_t>(at + kRecordKeyLength);
    if (value > kValueMax || metadata > kMetadataMax || key > kKeyMax) return false;
    if (record.size() != record_bytes(key, metadata, value)) return false;
    Bytes rest = record.subspan(kRecordHeaderBytes);
    view.key = {reinterpret_cast<const char*>(rest.data()), key};
    view.metadata = rest.subspan(key, metadata);
    view.value = rest.subspan(key + metadata, value);
    view.timestamp.value = load<uint64_t>(at + kRecordTimestamp);
    view.expires.value = load<uint64_t>(at + kRecordExpires);
    view.tombstone = load<uint8_t>(at + kRecordFlags) & kFlagTombstone;
    return true;
}

SlotStatus check_record(Bytes record, const ArenaView& arena, std::string_view key, const Entry& entry,
                        RecordView& view) noexcept {
    if (record.size() != entry.length || record.size() < kRecordHeaderBytes) return SlotStatus::kBad;
    if (!mutated(Mutation::kNoCrc)) {
        if (load<uint64_t>(record.data() + kRecordChecksum) != entry.checksum) return SlotStatus::kTorn;
        if (entry.checksum != checksum_of(record.subspan(8), arena.epoch)) return SlotStatus::kTorn;
    }
    if (!parse_record(record, view)) return SlotStatus::kBad;
    if (view.key != key && !mutated(Mutation::kStaleAddress)) return SlotStatus::kStale;
    if (view.timestamp != entry.timestamp || view.expires != entry.expires ||
        view.tombstone != entry.tombstone)
        return SlotStatus::kBad;
    return SlotStatus::kOk;
}

Bytes record_within(Bytes extent, const SlotAddress& expected, const Entry& entry) noexcept {
    if (entry.is_cold() || entry.offset < expected.offset) return {};
    const uint64_t from = entry.offset - expected.offset;
    if (from < kSlotHeaderBytes || from > extent.size() || entry.length > extent.size() - from) return {};
    return extent.subspan(from, entry.length);
}

void fill_record(const RecordView& record, std::span<std::byte> out) noexcept {
    WSS_ASSERT(out.size() == record_bytes(record.key.size(), record.metadata.size(), record.value.size()),
               "the buffer is as long as the record");
    std::byte* at = out.data();
    std::memset(at, 0, kRecordHeaderBytes);
    store(at + kRecordFingerprint, fingerprint(record.key));
    store(at + kRecordTimestamp, record.timestamp.value);
    store(at + kRecordExpires, record.expires.value);
    store(at + kRecordValueLength, static_cast<uint32_t>(record.value.size()));
    store(at + kRecordMetadataLength, static_cast<uint32_t>(record.metadata.size()));
    store(at + kRecordKeyLength, static_cast<uint16_t>(record.key.size()));
    store(at + kRecordFlags, static_cast<uint8_t>(record.tombstone ? kFlagTombstone : 0));
    at += kRecordHeaderBytes;
    const auto append = [&at](const void* from, size_t bytes) {
        if (bytes > 0) std::memcpy(at, from, bytes);
        at += bytes;
    };
    append(record.key.data(), record.key.size());
    append(record.metadata.data(), record.metadata.size());
    append(record.value.data(), record.value.size());
}

uint64_t encode_record(const RecordView& record, uint64_t epoch, std::span<std::byte> out) noexcept {
    fill_record(record, out);
    return seal_record(epoch, out);
}

uint64_t checksum_of_record(uint64_t epoch, Bytes record) noexcept {
    return checksum_of(record.subspan(8), epoch);
}

uint64_t seal_record(uint64_t epoch, std::span<std::byte> record) noexcept {
    const uint64_t checksum = checksum_of_record(epoch, record);
    store(record.data() + kRecordChecksum, checksum);
    return checksum;
}

void encode_slot(const SlotView& view, uint64_t epoch, std::span<std::byte, kSlotHeaderBytes> out) noexcept {
    std::byte* at = out.data();
    std::memset(at, 0, out.size());
    uint8_t flags = kFlagUsed;
    if (view.invalid) flags |= kFlagInvalid;
    if (view.incomplete) flags |= kFlagIncomplete;
    store(at + kSlotFingerprint, view.fingerprint);
    store(at + kSlotIncarnation, view.incarnation);
    store(at + kSlotSequence, view.sequence);
    store(at + kSlotFlags, flags);
    store(at + kSlotCount, static_cast<uint8_t>(view.entry_count));
    for (uint32_t i = 0; i < view.entry_count; i++)
        store_entry(at + kSlotEntries + i * kEntryBytes, view.entries[i]);
    store(at + kSlotChecksum, checksum_of(out.subspan(8), epoch));
}

void encode_free_slot(uint32_t incarnation, uint64_t epoch,
                      std::span<std::byte, kSlotHeaderBytes> out) noexcept {
    std::memset(out.data(), 0, out.size());
    store(out.data() + kSlotIncarnation, incarnation);
    store(out.data() + kSlotChecksum, checksum_of(out.subspan(8), epoch));
}

uint32_t incarnation_of(std::span<const std::byte, kSlotHeaderBytes> slot) noexcept {
    return load<uint32_t>(slot.data() + kSlotIncarnation);
}

// Copies 64 bytes. x86 stores in order and never tears an aligned word. Compilers turn eight atomic words
// into eight loads and stores, which were a third of a write's instructions.
static inline void copy_line(uint64_t* to, const std::byte* from) noexcept {
#ifdef __x86_64__
    asm volatile(
        "movups (%1), %%xmm0\n\tmovups 16(%1), %%xmm1\n\tmovups 32(%1), %%xmm2\n\tmovups 48(%1), %%xmm3\n\t"
        "movups %%xmm0, (%0)\n\tmovups %%xmm1, 16(%0)\n\tmovups %%xmm2, 32(%0)\n\tmovups %%xmm3, 48(%0)"
        :
        : "r"(to), "r"(from)
        : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
#else
    for (int i = 0; i < 8; ++i) __atomic_store_n(to + i, load<uint64_t>(from + 8 * i), __ATOMIC_RELEASE);
#endif
}

void copy_to_shared(std::byte* shared, const std::byte* from, size_t bytes) noexcept {
    auto* word = reinterpret_cast<uint64_t*>(shared);
    const auto copy = [&] {
        __atomic_store_n(word++, load<uint64_t>(from), __ATOMIC_RELEASE);
        from += 8;
    };
    for (; bytes >= 64; bytes -= 64) copy_line(word, from), word += 8, from += 64;
    for (; bytes >= 8; bytes -= 8) copy();
}

void copy_from_shared(std::byte* to, const std::byte* shared, size_t bytes) noexcept {
    const auto* words = reinterpret_cast<const uint64_t*>(shared);
    for (size_t i = 0; i < bytes / 8; i++) store(to + 8 * i, __atomic_load_n(words + i, __ATOMIC_ACQUIRE));
}

}  // namespace wss::kv::store
