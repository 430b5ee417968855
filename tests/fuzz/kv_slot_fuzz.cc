// SPDX-License-Identifier: Apache-2.0
// Fuzzes the slots, records and index buckets that a hostile server, or a torn READ, may give to a client. An
// accepted value must not refer to memory outside the arena, no access outside the input is allowed, and an
// accepted value must be encoded to the same bytes.
//
// Input: one byte of choices, then the message. Almost no mutation has a correct checksum, so one choice is
// to insert one.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "lib/kv/client/index_lookup.h"
#include "lib/kv/store/log.h"
#include "lib/kv/store/slot_format.h"
#include "tests/fuzz/require.h"

namespace wss::kv::store {
namespace {

constexpr ArenaView kArena{.bytes = 1 << 20, .epoch = 42};
constexpr std::string_view kKey = "key";

// Inserts the correct checksum into the record to which the first entry of the slot refers, and into the
// entry. The offsets are those of slot_format.cc.
void sign_first_record(std::vector<std::byte>& bytes, const SlotAddress& address) {
    Entry entry;
    std::memcpy(&entry.offset, bytes.data() + 32 + 24, sizeof entry.offset);
    std::memcpy(&entry.length, bytes.data() + 32 + 32, sizeof entry.length);
    const Bytes within = record_within(bytes, address, entry);
    if (within.size() < kRecordHeaderBytes) return;
    const auto from = static_cast<size_t>(within.data() - bytes.data());
    const uint64_t checksum = seal_record(kArena.epoch, std::span(bytes).subspan(from, within.size()));
    std::memcpy(bytes.data() + 32 + 16, &checksum, sizeof checksum);
}

// Inserts a correct checksum into a slot made of the fuzzer's bytes, as a hostile server could.
void sign(std::vector<std::byte>& bytes, size_t length) {
    seal_record(kArena.epoch, std::span(bytes).first(length));
}

void fuzz_record(Bytes extent, const SlotAddress& address, const Entry& entry) {
    const Bytes within = record_within(extent, address, entry);
    if (!within.empty()) {
        FUZZ_REQUIRE(within.size() == entry.length);
        FUZZ_REQUIRE(within.data() >= extent.data() + kSlotHeaderBytes);
        FUZZ_REQUIRE(within.data() + within.size() <= extent.data() + extent.size());
    }
    RecordView view;
    std::vector<std::byte> copy(within.begin(), within.end());
    if (check_record(copy, kArena, kKey, entry, view) != SlotStatus::kOk) return;
    FUZZ_REQUIRE(view.key == kKey && view.timestamp == entry.timestamp);
    FUZZ_REQUIRE(view.key.size() + view.metadata.size() + view.value.size() + kRecordHeaderBytes ==
                 copy.size());
}

void fuzz_slot(std::vector<std::byte> bytes, bool signed_slot, bool right_key) {
    SlotAddress address{.offset = 4096, .bytes = static_cast<uint32_t>(bytes.size()), .incarnation = 1};
    if (bytes.size() >= kSlotHeaderBytes) {
        const uint64_t name = fingerprint(kKey);
        if (right_key) std::memcpy(bytes.data() + 8, &name, sizeof name);
        std::memcpy(&address.incarnation, bytes.data() + 16, sizeof address.incarnation);
        if (signed_slot) sign_first_record(bytes, address);
        if (signed_slot) sign(bytes, kSlotHeaderBytes);
    }
    SlotView view;
    const SlotStatus status = parse_slot(bytes, kArena, kKey, address, view);
    if (status != SlotStatus::kOk) return;
    FUZZ_REQUIRE(view.entry_count <= kEntries && view.fingerprint == fingerprint(kKey));
    for (uint32_t i = 0; i < view.entry_count; i++) {
        const Entry& entry = view.entries[i];
        FUZZ_REQUIRE(!entry.timestamp.is_none());
        FUZZ_REQUIRE(entry.is_cold() ||
                     (entry.offset <= kArena.bytes && entry.length <= kArena.bytes - entry.offset));
        FUZZ_REQUIRE(entry.length <= kRecordMax);
        FUZZ_REQUIRE(view.find(entry.timestamp) == &entry);
        fuzz_record(bytes, address, entry);
    }
    std::array<std::byte, kSlotHeaderBytes> again;
    encode_slot(view, kArena.epoch, again);
    SlotView twice;
    FUZZ_REQUIRE(parse_slot(again, kArena, kKey, address, twice) == SlotStatus::kOk);
    FUZZ_REQUIRE(twice.entries == view.entries && twice.invalid == view.invalid);
}

void fuzz_lone_record(std::vector<std::byte> bytes) {
    RecordView view;
    if (!parse_record(bytes, view)) return;
    Entry entry{.timestamp = view.timestamp,
                .length = static_cast<uint32_t>(bytes.size()),
                .tombstone = view.tombstone};
    entry.expires = view.expires;
    entry.checksum = seal_record(kArena.epoch, bytes);
    RecordView checked;
    FUZZ_REQUIRE(check_record(bytes, kArena, view.key, entry, checked) == SlotStatus::kOk);
    FUZZ_REQUIRE(checked.value.size() == view.value.size() && checked.value.data() == view.value.data());
    bytes.back() ^= std::byte{1};
    FUZZ_REQUIRE(check_record(bytes, kArena, view.key, entry, checked) != SlotStatus::kOk);
}

// A bucket, returned for each READ of a lookup. It must not lead the reader outside the index or the arena,
// and the number of reads must be bounded.
void fuzz_bucket(std::vector<std::byte> bytes, bool is_signed, bool is_there) {
    constexpr uint32_t kGroups = 64;
    bytes.resize(kBucketBytes);
    IndexFacts facts{.bytes = kGroups * kGroupBytes, .groups = 1};
    IndexLookup lookup;
    SlotAddress found;
    uint32_t reads = 0;
    IndexLookup::Next next = lookup.begin(fingerprint(kKey), facts);
    for (; next == IndexLookup::Next::kRead; reads++) {
        FUZZ_REQUIRE(lookup.offset() % kBucketBytes == 0);
        FUZZ_REQUIRE(lookup.offset() + kBucketBytes <= facts.bytes);
        const auto group = static_cast<uint32_t>(lookup.offset() / kGroupBytes);
        const auto number = static_cast<uint8_t>(lookup.offset() % kGroupBytes / kBucketBytes);
        if (is_there) std::memcpy(bytes.data() + 8, &group, sizeof group);
        if (is_there) std::memcpy(bytes.data() + 13, &number, sizeof number);
        if (is_signed) sign(bytes, kBucketBytes);
        BucketView view;
        if (parse_bucket(bytes, kArena, group, number, view) == SlotStatus::kOk) {
            std::array<std::byte, kBucketBytes> again;
            encode_bucket(view, kArena.epoch, again);
            BucketView twice;
            FUZZ_REQUIRE(parse_bucket(again, kArena, group, number, twice) == SlotStatus::kOk &&
                         twice == view);
        }
        next = lookup.arrived(bytes, kArena, facts, found);
        FUZZ_REQUIRE(facts.groups <= kGroups);
    }
    FUZZ_REQUIRE(reads <= IndexLookup::kReadsMax);
    if (next != IndexLookup::Next::kFound) return;
    FUZZ_REQUIRE(found.bytes >= kSlotHeaderBytes && found.offset <= kArena.bytes);
    FUZZ_REQUIRE(found.bytes <= kArena.bytes - found.offset);
}

void fuzz_transaction(std::string_view bytes) {
    LoggedTransaction transaction;
    if (!parse_transaction({1}, bytes, transaction)) return;
    FUZZ_REQUIRE(encode_transaction(transaction) == bytes);
}

}  // namespace
}  // namespace wss::kv::store

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace wss::kv::store;
    if (size < 1) return 0;
    const auto* bytes = reinterpret_cast<const std::byte*>(data) + 1;
    const std::vector<std::byte> copy(bytes, bytes + size - 1);
    fuzz_slot(copy, data[0] & 1, data[0] & 2);
    fuzz_lone_record(copy);
    fuzz_bucket(copy, data[0] & 1, data[0] & 2);
    fuzz_transaction({reinterpret_cast<const char*>(copy.data()), copy.size()});
    return 0;
}
