// SPDX-License-Identifier: Apache-2.0
// The view of one-sided readers (slot_format.h V1–V5, rule S2): these tests read only the arena's bytes.
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

TEST(KvSlot, returns_the_latest_version_with_its_value_in_one_read) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "value"}}), Answer::kOk);
    for (uint64_t ts = 20; ts < 40; ts++) {
        EXPECT_EQ(bench.put(ts, {{"x", std::to_string(ts)}}), Answer::kOk);
        const RemoteRead read = bench.read_remotely("x");
        EXPECT_EQ(read.latest, std::to_string(ts));
        EXPECT_TRUE(read.latest_inline) << ts;
    }
}

TEST(KvSlot, costs_nothing_until_a_client_requests_the_address_of_the_key) {
    Bench bench;
    const std::string value(1000, 'v');
    EXPECT_EQ(bench.put(10, {{"x", value}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(20, {{"x", "prepared"}}), Answer::kOk);
    EXPECT_EQ(bench.store->get("x", false).slot.bytes, 0u);
    const uint64_t without = bench.store->statistics().arena_used;
    EXPECT_LT(without, 2 * 1200u) << "two records and nothing else";
    // The next call creates the slot.
    const RemoteRead read = bench.read_remotely("x");
    EXPECT_EQ(read.latest, value);
    EXPECT_TRUE(read.latest_inline);
    EXPECT_NE(read.view.find({20}), nullptr);
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(bench.read_remotely("x", bench.store->get("x", false).slot).latest, "prepared");
}

TEST(KvSlot, leads_to_a_large_value_through_its_entry) {
    Bench bench;
    const std::string value(100'000, 'v');
    EXPECT_EQ(bench.put(10, {{"x", value}}), Answer::kOk);
    const RemoteRead read = bench.read_remotely("x");
    EXPECT_EQ(read.latest, value);
    EXPECT_FALSE(read.latest_inline);
    EXPECT_EQ(bench.store->get("x").slot.bytes, kSlotHeaderBytes);
}

TEST(KvSlot, shows_prepared_versions_for_the_second_round_in_the_same_read) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "old"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(20, {{"x", "new"}}), Answer::kOk);
    const RemoteRead read = bench.read_remotely("x");
    EXPECT_EQ(read.latest, "old");
    const Entry* prepared = read.view.find({20});
    ASSERT_NE(prepared, nullptr);
    EXPECT_EQ(prepared->state, EntryState::kPrepared);
    EXPECT_FALSE(read.view.incomplete);
}

TEST(KvSlot, reports_prepared_versions_that_do_not_fit_as_missing) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "old"}}), Answer::kOk);
    for (uint64_t ts = 20; ts < 24; ts++) EXPECT_EQ(bench.prepare(ts, {{"x", "new"}}), Answer::kOk);
    EXPECT_TRUE(bench.read_remotely("x").view.incomplete);
    EXPECT_EQ(bench.store->abort({21}, {}), Answer::kAborted);
    EXPECT_FALSE(bench.read_remotely("x").view.incomplete);
}

TEST(KvSlot, is_marked_invalid_while_any_prepared_version_is_undecided) {
    Bench bench;
    const auto invalid = [&] { return bench.read_remotely("x").view.invalid; };
    EXPECT_EQ(bench.put(10, {{"x", "old"}}), Answer::kOk);
    EXPECT_FALSE(invalid());
    EXPECT_EQ(bench.prepare(20, {{"x", "wins"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(15, {{"x", "loses"}}), Answer::kOk);
    EXPECT_EQ(bench.prepare(30, {{"x", "aborts"}}), Answer::kOk);
    EXPECT_TRUE(invalid());
    EXPECT_EQ(bench.store->commit({20}), Answer::kOk);
    EXPECT_EQ(bench.store->abort({30}, {}), Answer::kAborted);
    EXPECT_TRUE(invalid());
    EXPECT_EQ(bench.store->commit({15}), Answer::kOk)
        << "older than the latest: the prototype's bit remained set here";
    EXPECT_FALSE(invalid());
}

TEST(KvSlot, that_is_reused_leaves_the_address_of_the_freed_key_stale) {
    Bench bench({.inline_cells = 0});
    EXPECT_EQ(bench.put(10, {{"x", "a"}}), Answer::kOk);
    const SlotAddress address = bench.store->get("x").slot;
    EXPECT_EQ(bench.erase(20, "x"), Answer::kOk);
    for (int i = 0; i < 20; i++) bench.pass(from_s(10));
    ASSERT_EQ(bench.store->statistics().keys, 0u);
    EXPECT_EQ(bench.read_remotely("x", address).slot, SlotStatus::kStale);
    EXPECT_EQ(bench.put(100, {{"y", "b"}}), Answer::kOk);
    ASSERT_EQ(bench.store->get("y").slot.offset, address.offset) << "the test needs the slot to be reused";
    EXPECT_EQ(bench.read_remotely("x", address).slot, SlotStatus::kStale);
    EXPECT_EQ(bench.read_remotely("y").latest, "b");
    EXPECT_EQ(bench.erase(110, "y"), Answer::kOk);
    for (int i = 0; i < 20; i++) bench.pass(from_s(10));
    EXPECT_EQ(bench.put(200, {{"x", "c"}}), Answer::kOk);
    ASSERT_EQ(bench.store->get("x").slot.offset, address.offset);
    EXPECT_EQ(bench.read_remotely("x", address).slot, SlotStatus::kStale);
    EXPECT_EQ(bench.read_remotely("x").latest, "c");
}

TEST(KvSlot, has_no_valid_address_of_an_earlier_run) {
    Bench bench({.durability = Durability::kSync});
    EXPECT_EQ(bench.put(10, {{"x", "a"}}), Answer::kPending);
    bench.persist();
    const SlotAddress address = bench.store->get("x").slot;
    const ArenaView before = bench.store->arena();
    bench.restart(0);
    ASSERT_EQ(bench.store->get("x").slot, address) << "the test needs the same address";
    SlotView view;
    const Bytes slot{reinterpret_cast<const std::byte*>(bench.memory.data()) + address.offset, address.bytes};
    EXPECT_EQ(parse_slot(slot, before, "x", address, view), SlotStatus::kTorn);
    EXPECT_EQ(bench.read_remotely("x").latest, "a");
}

TEST(KvSlot, with_any_changed_byte_is_detected) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "some value"}}), Answer::kOk);
    const SlotAddress address = bench.store->get("x").slot;
    auto* arena = reinterpret_cast<std::byte*>(bench.memory.data());
    const RemoteRead clean = bench.read_remotely("x", address);
    ASSERT_EQ(clean.latest, "some value");
    const Entry entry = *clean.view.latest();
    for (uint64_t i = 0; i < kSlotHeaderBytes; i++) {
        arena[address.offset + i] ^= std::byte{0x10};
        EXPECT_EQ(bench.read_remotely("x", address).slot, SlotStatus::kTorn) << i;
        arena[address.offset + i] ^= std::byte{0x10};
    }
    for (uint64_t i = 0; i < entry.length; i++) {
        arena[entry.offset + i] ^= std::byte{0x10};
        EXPECT_FALSE(bench.read_remotely("x", address).latest.has_value()) << i;
        arena[entry.offset + i] ^= std::byte{0x10};
    }
    EXPECT_EQ(bench.read_remotely("x", address).latest, "some value");
}

TEST(KvSlot, shows_nothing_before_it_is_on_stable_storage_with_sync_durability) {
    Bench bench({.durability = Durability::kSync});
    EXPECT_EQ(bench.put(10, {{"x", "a"}}), Answer::kPending);
    bench.persist();
    EXPECT_EQ(bench.prepare(20, {{"x", "b"}}), Answer::kPending);
    EXPECT_EQ(bench.read_remotely("x").view.find({20}), nullptr);
    EXPECT_EQ(bench.store->get_exact("x", {20}).presence, Presence::kGone);
    bench.persist();
    EXPECT_NE(bench.read_remotely("x").view.find({20}), nullptr);
    EXPECT_EQ(bench.store->get_exact("x", {20}).presence, Presence::kExact);
}

// --- the format alone

struct Encoded {
    std::vector<std::byte> record = std::vector<std::byte>(record_bytes(1, 3, 5));
    Entry entry;
    ArenaView arena{.bytes = 4096, .epoch = 9};
    Encoded() {
        entry = {.timestamp = {7}, .offset = 512, .state = EntryState::kLatest, .expires = {99}};
        entry.length = static_cast<uint32_t>(record.size());
        entry.checksum = encode_record({.key = "k",
                                        .metadata = bytes_of("met"),
                                        .value = bytes_of("value"),
                                        .timestamp = {7},
                                        .expires = {99}},
                                       arena.epoch, record);
    }
};

TEST(KvRecord, returns_what_was_written) {
    Encoded encoded;
    RecordView view;
    ASSERT_EQ(check_record(encoded.record, encoded.arena, "k", encoded.entry, view), SlotStatus::kOk);
    EXPECT_EQ(text_of(view.metadata) + text_of(view.value), "metvalue");
    EXPECT_EQ(view.expires, Timestamp{99});
}

TEST(KvRecord, of_another_key_with_the_same_fingerprint_is_stale) {
    Encoded encoded;
    RecordView view;
    EXPECT_EQ(check_record(encoded.record, encoded.arena, "q", encoded.entry, view), SlotStatus::kStale);
}

TEST(KvRecord, of_another_version_is_torn) {
    Encoded encoded;
    RecordView view;
    encoded.entry.checksum++;
    EXPECT_EQ(check_record(encoded.record, encoded.arena, "k", encoded.entry, view), SlotStatus::kTorn);
}

TEST(KvSlotFormat, has_no_valid_entries_that_point_outside_the_arena) {
    Encoded encoded;
    const SlotAddress address{.offset = 0, .bytes = kSlotHeaderBytes, .incarnation = 3};
    const auto status = [&](const std::vector<Entry>& entries) {
        SlotView view{.fingerprint = fingerprint("k"), .incarnation = 3};
        for (const Entry& entry : entries) view.entries[view.entry_count++] = entry;
        std::array<std::byte, kSlotHeaderBytes> slot;
        encode_slot(view, encoded.arena.epoch, slot);
        SlotView parsed;
        return parse_slot(slot, encoded.arena, "k", address, parsed);
    };
    const auto changed = [&](auto&& change) {
        Entry entry = encoded.entry;
        change(entry);
        return status({entry});
    };
    EXPECT_EQ(status({encoded.entry}), SlotStatus::kOk);
    EXPECT_EQ(changed([](Entry& e) { e.offset = 4096; }), SlotStatus::kBad);
    EXPECT_EQ(changed([](Entry& e) { e.offset = UINT64_MAX - 7; }), SlotStatus::kBad);
    EXPECT_EQ(changed([](Entry& e) { e.offset = 513; }), SlotStatus::kBad);
    EXPECT_EQ(changed([](Entry& e) { e.length = kRecordHeaderBytes - 1; }), SlotStatus::kBad);
    EXPECT_EQ(changed([](Entry& e) { e.length = UINT32_MAX; }), SlotStatus::kBad);
    EXPECT_EQ(changed([](Entry& e) { e.timestamp = {}; }), SlotStatus::kBad);
    EXPECT_EQ(changed([](Entry& e) { e.state = static_cast<EntryState>(9); }), SlotStatus::kBad);
    EXPECT_EQ(status({encoded.entry, encoded.entry}), SlotStatus::kBad);
}

TEST(KvSlotFormat, reads_no_record_outside_the_extent_from_it) {
    std::array<std::byte, 512> extent{};
    const SlotAddress address{.offset = 1024, .bytes = 512};
    EXPECT_EQ(record_within(extent, address, {.offset = 1024 + 192, .length = 320}).size(), 320u);
    EXPECT_TRUE(record_within(extent, address, {.offset = 1024 + 192, .length = 321}).empty());
    EXPECT_TRUE(record_within(extent, address, {.offset = 1024 + 100, .length = 64}).empty());
    EXPECT_TRUE(record_within(extent, address, {.offset = 512, .length = 64}).empty());
    EXPECT_TRUE(record_within(extent, address, {.offset = UINT64_MAX, .length = 64}).empty());
    EXPECT_TRUE(record_within(extent, address, {.offset = 1024 + 192, .length = 0}).empty());
}

}  // namespace
}  // namespace wss::kv::store
