// SPDX-License-Identifier: Apache-2.0
// The format of the arena that remote readers see, and how they validate what they read.
//
// A reader holds the arena's {remote address, rkey, bytes, epoch} (from the greeting) and, per key, a
// SlotAddress (from the reply to an ordinary GET, cached; or from the index). It READs [offset, offset +
// bytes), and calls parse_slot() and then check_record(), both pure functions. All offsets are from the
// arena's start. Numbers are little-endian.
//
//   extent of a key:   slot header (192 bytes) | cell 0 | cell 1 | … (the cells may be missing)
//   slot header:       fixed part (32) and kEntries entries (40 each): the latest committed version, the
//                      prepared ones, then superseded ones. Each entry locates its record: in a cell of this
//                      extent (the same READ has fetched it), elsewhere in the arena (one more READ of
//                      `length` bytes at `offset`), or nowhere (cold: use RPC)
//   record:            fixed part (48) | key | metadata | value; immutable while any entry refers to it
//
// Why this is safe. Nothing here depends on the order in which a READ sees memory, nor on its being atomic:
//  V1  The header carries a 64-bit checksum of itself, seeded with the arena's epoch. A mix of two headers, a
//      header of an earlier run of the server, and bytes that are not a header are reported as kTorn, except
//      with probability 2^-64. Slots live in type-stable pages, so a stale address always leads to a slot
//      header, never to a value crafted like one.
//  V2  The header carries the key's fingerprint and the slot's incarnation. A slot that was freed and now
//      belongs to another key, or to the same key again, does not match the reader's cached address: kStale.
//      The reader then drops the address.
//  V3  The entry carries the record's checksum. Record memory is reused; the bytes that a reader fetches
//      through an entry are either the entry's version or fail the checksum. The record repeats the whole
//      key, so different keys with equal fingerprints are distinguished as well.
//  V4  A version is shown only when readers may see it: committed or durably prepared, payload before entry
//      (release order). A kPrepared entry answers round 2 for exactly its timestamp, and nothing else (RAMP).
//  V5  `incomplete` means that there are prepared versions without an entry: for a timestamp that is not
//      shown, use RPC.
//
// After kTorn the read is repeated a bounded number of times. Then RPC is used, as after every other result
// except kOk. A hostile server can return wrong values, but lengths and offsets that parse_slot() returns are
// within the arena.
//
// `invalid` is the paper's invalid bit (`paper` mode): set while a prepared version of the key exists,
// whether its transaction wins, loses or aborts (the prototype's bit remained set when a commit lost).
//
// Thread-safety: pure functions on the caller's memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/kv/store/types.h"

namespace wss::kv::store {

constexpr size_t kEntries = 4;
constexpr size_t kEntryBytes = 40;
constexpr size_t kSlotHeaderBytes = 32 + kEntries * kEntryBytes;
constexpr size_t kRecordHeaderBytes = 48;
constexpr size_t kRecordMax = kRecordHeaderBytes + kKeyMax + kMetadataMax + kValueMax;
static_assert(kSlotHeaderBytes % 64 == 0, "a slot header is whole cache lines");

// Location of a key's slot. `bytes` is the size of the first READ: the header and its cells, if it has any.
struct SlotAddress {
    uint64_t offset = 0;
    uint32_t bytes = 0;  // 0: the key has no slot
    uint32_t incarnation = 0;
    auto operator<=>(const SlotAddress&) const = default;
};

// The reader's facts about the arena, from the greeting. The epoch is random for each run of the server.
struct ArenaView {
    uint64_t bytes = 0;
    uint64_t epoch = 0;
};

enum class EntryState : uint8_t { kNone = 0, kLatest = 1, kPrepared = 2, kSuperseded = 3 };

struct Entry {
    Timestamp timestamp;
    uint64_t offset = 0;  // the record's offset from the arena's start
    uint32_t length = 0;  // the record's length; 0: cold, not in the arena
    EntryState state = EntryState::kNone;
    bool tombstone = false;
    uint64_t checksum = 0;  // the record's checksum
    Timestamp expires;
    bool is_cold() const { return length == 0; }
    bool operator==(const Entry&) const = default;
};

struct SlotView {
    uint64_t fingerprint = 0;
    uint32_t incarnation = 0;
    uint32_t sequence = 0;    // grows with every change of the slot
    bool invalid = false;     // the paper's bit
    bool incomplete = false;  // V5
    uint32_t entry_count = 0;
    std::array<Entry, kEntries> entries{};

    const Entry* latest() const;                   // committed; nullptr: none yet
    const Entry* find(Timestamp timestamp) const;  // any state; nullptr: not shown
};

enum class SlotStatus : uint8_t {
    kOk,
    kTorn,   // changed during the read, or of another epoch: READ again, then RPC
    kStale,  // the slot is another key's, free or reincarnated: drop the address, RPC
    kBad,    // invalid: no correct server writes that
};
std::string_view to_string(SlotStatus status);

// `slot` has at least kSlotHeaderBytes, as they were read. `expected` is the key's cached address.
SlotStatus parse_slot(Bytes slot, const ArenaView& arena, uint64_t fingerprint, const SlotAddress& expected,
                      SlotView& view) noexcept;
inline SlotStatus parse_slot(Bytes slot, const ArenaView& arena, std::string_view key,
                             const SlotAddress& expected, SlotView& view) noexcept {
    return parse_slot(slot, arena, fingerprint(key), expected, view);
}

struct RecordView {
    std::string_view key;
    Bytes metadata;
    Bytes value;
    Timestamp timestamp;
    Timestamp expires;
    bool tombstone = false;
};

// `record` has exactly entry.length bytes. The view points into it.
SlotStatus check_record(Bytes record, const ArenaView& arena, std::string_view key, const Entry& entry,
                        RecordView& view) noexcept;

// The bytes of `entry`'s record if the READ of `expected` fetched them too; otherwise empty.
Bytes record_within(Bytes extent, const SlotAddress& expected, const Entry& entry) noexcept;

// --- the server's side

constexpr size_t record_bytes(size_t key, size_t metadata, size_t value) {
    return kRecordHeaderBytes + key + metadata + value;
}
// Writes the record into `out` (of exactly record_bytes()), without a checksum.
void fill_record(const RecordView& record, std::span<std::byte> out) noexcept;
// The same with its checksum, which is returned.
uint64_t encode_record(const RecordView& record, uint64_t epoch, std::span<std::byte> out) noexcept;
// Recomputes the checksum of an encoded record, for example from disk, stores and returns it.
uint64_t seal_record(uint64_t epoch, std::span<std::byte> record) noexcept;
// The checksum that seal_record() would store in the record's first word.
uint64_t checksum_of_record(uint64_t epoch, Bytes record) noexcept;
// Checks that the lengths within `record` agree with its size and the limits, but not the checksum (records
// on disk have the disk's).
bool parse_record(Bytes record, RecordView& view) noexcept;
void encode_slot(const SlotView& view, uint64_t epoch, std::span<std::byte, kSlotHeaderBytes> out) noexcept;
// The incarnation of a freed slot; 0 in unused memory.
uint32_t incarnation_of(std::span<const std::byte, kSlotHeaderBytes> slot) noexcept;
// Writes a free slot: it matches no fingerprint and keeps the incarnation.
void encode_free_slot(uint32_t incarnation, uint64_t epoch,
                      std::span<std::byte, kSlotHeaderBytes> out) noexcept;

// Copies between private memory and memory that a remote reader may read: word by word, never torn within an
// aligned word, and not a data race in C++ terms. `shared` is 8-byte aligned, `bytes` a multiple of 8.
void copy_to_shared(std::byte* shared, const std::byte* from, size_t bytes) noexcept;
void copy_from_shared(std::byte* to, const std::byte* shared, size_t bytes) noexcept;

}  // namespace wss::kv::store
