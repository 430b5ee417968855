// SPDX-License-Identifier: Apache-2.0
// The bucket index (index_format.h KX1–KX4), read only through its bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "lib/kv/client/index_lookup.h"
#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

constexpr uint64_t kEpoch = 77;
constexpr ArenaView kArena{.bytes = uint64_t{1} << 32, .epoch = kEpoch};

// Reads buckets like a peer's READ.
struct IndexReader {
    ArenaView arena;
    const std::byte* memory = nullptr;
    IndexFacts facts;
    uint64_t reads = 0;
    IndexLookup lookup;
    IndexLookup::Next last{};

    SlotAddress find(uint64_t fingerprint) { return go_on(lookup.begin(fingerprint, facts)); }
    // Continues after the found slot has turned out to belong to another key.
    SlotAddress find_another() { return go_on(lookup.again(facts)); }
    SlotAddress go_on(IndexLookup::Next next) {
        SlotAddress found;
        last = next;
        while (last == IndexLookup::Next::kRead) {
            std::array<std::byte, kBucketBytes> bucket;
            EXPECT_LE(lookup.offset() + kBucketBytes, facts.bytes);
            copy_from_shared(bucket.data(), memory + lookup.offset(), bucket.size());
            last = lookup.arrived(bucket, arena, facts, found);
            reads++;
        }
        return last == IndexLookup::Next::kFound ? found : SlotAddress{};
    }
};

// The odd factor makes these values as different as fingerprints.
uint64_t print_of(uint64_t key) {
    return (key + 1) * 0x9e3779b97f4a7c15u;
}
SlotAddress slot_of(uint64_t key) {
    return {.offset = key * 256, .bytes = 256, .incarnation = static_cast<uint32_t>(key + 1)};
}

struct IndexBench {
    explicit IndexBench(size_t groups) : memory(groups * kGroupBytes / 8), index(bytes(), kEpoch) {}
    std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(memory)); }
    IndexReader reader() {
        return {.arena = kArena,
                .memory = bytes().data(),
                .facts = {.bytes = index.bytes(), .groups = index.groups()}};
    }
    std::vector<uint64_t> memory;
    SlotIndex index;
};

}  // namespace

TEST(SlotIndex, finds_inserted_keys_while_it_grows_and_no_erased_ones) {
    constexpr uint64_t kKeys = 20'000;
    IndexBench bench(1 << 12);
    IndexReader reader = bench.reader();
    uint64_t left_out = 0;
    std::vector<bool> has(kKeys);
    for (uint64_t key = 0; key < kKeys; key++) {
        has[key] = bench.index.insert(print_of(key), slot_of(key));
        left_out += !has[key];
    }
    EXPECT_LT(left_out, kKeys / 200) << "crowded groups leave out few keys";
    EXPECT_GT(bench.index.groups(), kKeys / 12);
    for (uint64_t key = 0; key < kKeys; key++)
        ASSERT_EQ(reader.find(print_of(key)), has[key] ? slot_of(key) : SlotAddress{}) << key;
    EXPECT_LT(reader.reads, kKeys * 3 / 2);
    for (uint64_t key = 0; key < kKeys; key += 2)
        if (has[key]) bench.index.erase(print_of(key), slot_of(key));
    for (uint64_t key = 0; key < kKeys; key++)
        ASSERT_EQ(reader.find(print_of(key)), has[key] && key % 2 == 1 ? slot_of(key) : SlotAddress{}) << key;
}

TEST(SlotIndex, shows_its_growth_to_a_reader_that_has_read_only_one_group) {
    IndexBench bench(1 << 10);
    const IndexReader old = bench.reader();
    ASSERT_EQ(old.facts.groups, 1u);
    for (uint64_t key = 0; key < 5000; key++) bench.index.insert(print_of(key), slot_of(key));
    uint64_t found = 0;
    for (uint64_t key = 0; key < 5000; key++) {
        IndexReader reader = old;
        found += reader.find(print_of(key)) == slot_of(key);
        EXPECT_LE(reader.reads, IndexLookup::kReadsMax);
        EXPECT_LE(reader.facts.groups, bench.index.groups());
    }
    EXPECT_GT(found, 4950u);
    IndexReader learns = old;
    for (uint64_t key = 0; key < 5000; key++) learns.find(print_of(key));
    EXPECT_EQ(learns.facts.groups, bench.index.groups());
}

TEST(SlotIndex, that_is_full_leaves_keys_out_and_adds_them_when_others_are_gone) {
    IndexBench bench(1);
    uint64_t key = 0;
    while (bench.index.insert(print_of(key), slot_of(key))) key++;
    EXPECT_EQ(key, kGroupBuckets * kBucketEntries);
    bench.index.erase(print_of(3), slot_of(3));
    EXPECT_TRUE(bench.index.insert(print_of(key), slot_of(key)));
    IndexReader reader = bench.reader();
    EXPECT_EQ(reader.find(print_of(key)), slot_of(key));
    EXPECT_EQ(reader.find(print_of(3)), SlotAddress{});
    EXPECT_EQ(reader.last, IndexLookup::Next::kAbsent);
    EXPECT_EQ(bench.index.entries(), key);
}

TEST(SlotIndex, without_memory_has_no_keys) {
    IndexBench bench(0);
    EXPECT_FALSE(bench.index.insert(print_of(1), slot_of(1)));
    IndexReader reader = bench.reader();
    EXPECT_EQ(reader.find(print_of(1)), SlotAddress{});
    EXPECT_EQ(reader.reads, 0u);
}

TEST(SlotIndex, leads_to_each_of_two_keys_with_equal_tags_and_erases_the_right_one) {
    IndexBench bench(4);
    const uint64_t print = print_of(1);
    ASSERT_TRUE(bench.index.insert(print, slot_of(1)));
    ASSERT_TRUE(bench.index.insert(print ^ 1, slot_of(2)));
    IndexReader reader = bench.reader();
    EXPECT_EQ(reader.find(print ^ 1), slot_of(1));
    EXPECT_EQ(reader.find_another(), slot_of(2)) << "the slot itself shows that it belongs to another key";
    EXPECT_EQ(reader.reads, 2u);
    EXPECT_EQ(reader.find(print), slot_of(1));
    bench.index.erase(print, slot_of(1));
    EXPECT_EQ(reader.find(print), slot_of(2));
    EXPECT_EQ(reader.find_another(), SlotAddress{});
    EXPECT_EQ(reader.last, IndexLookup::Next::kAbsent);
}

TEST(SlotIndex, allocates_no_memory_that_it_cannot_use) {
    EXPECT_EQ(SlotIndex::bytes_for(uint64_t{1} << 20), uint64_t{64} << 10);
    EXPECT_EQ(SlotIndex::bytes_for(uint64_t{4} << 40), (uint64_t{1} << kGroupBitsMax) * kGroupBytes);
}

TEST(SlotIndex, accepts_no_bucket_that_is_torn_or_of_another_run) {
    IndexBench bench(4);
    ASSERT_TRUE(bench.index.insert(print_of(1), slot_of(1)));
    std::array<std::byte, kBucketBytes> before, after;
    const uint64_t at = bucket_offset(0, home_of(tag_of(print_of(1))));
    std::memcpy(before.data(), bench.bytes().data() + at, before.size());
    bench.index.erase(print_of(1), slot_of(1));
    std::memcpy(after.data(), bench.bytes().data() + at, after.size());
    for (size_t cut = 8; cut < kBucketBytes; cut += 8) {
        std::array<std::byte, kBucketBytes> mixed = before;
        std::memcpy(mixed.data(), after.data(), cut);
        BucketView view;
        const SlotStatus status = parse_bucket(mixed, kArena, 0, home_of(tag_of(print_of(1))), view);
        EXPECT_EQ(status, mixed == before || mixed == after ? SlotStatus::kOk : SlotStatus::kTorn) << cut;
    }
    IndexReader reader = bench.reader();
    reader.arena.epoch++;
    EXPECT_EQ(reader.find(print_of(1)), SlotAddress{});
    EXPECT_EQ(reader.last, IndexLookup::Next::kTorn);
    EXPECT_EQ(reader.reads, IndexLookup::kReadsMax) << "the number of attempts is bounded";
}

// --- invalid buckets, as a hostile server could write them

struct ForgedBucket : testing::Test {
    IndexBench bench{16};
    BucketView view{.entries = {{{.tag = tag_of(print_of(1)), .slot = slot_of(1)}}}};

    SlotAddress find_in_forged(IndexReader& reader) {
        for (uint32_t number = 0; number < kGroupBuckets; number++) {
            view.number = number;
            std::array<std::byte, kBucketBytes> image;
            encode_bucket(view, kEpoch, image);
            std::memcpy(bench.bytes().data() + bucket_offset(0, number), image.data(), image.size());
        }
        return reader.find(print_of(1));
    }
};

TEST_F(ForgedBucket, names_no_slot_outside_the_arena) {
    IndexReader reader = bench.reader();
    EXPECT_EQ(find_in_forged(reader), slot_of(1));
    const SlotAddress outside[] = {{.offset = kArena.bytes, .bytes = 256, .incarnation = 1},
                                   {.offset = kArena.bytes - 128, .bytes = 256, .incarnation = 1},
                                   {.offset = (uint64_t{1} << 44) - 16, .bytes = 65'520, .incarnation = 1},
                                   {.offset = 0, .bytes = 176, .incarnation = 1}};
    for (const SlotAddress& slot : outside) {
        view.entries[0].slot = slot;
        EXPECT_EQ(find_in_forged(reader), SlotAddress{}) << slot.offset;
        EXPECT_EQ(reader.last, IndexLookup::Next::kTorn);
    }
}

TEST_F(ForgedBucket, sends_no_reader_outside_the_index) {
    view.entries = {};
    for (uint32_t depth = 0; depth < 256; depth++) {
        view.depth = depth;
        IndexReader reader = bench.reader();  // checks that offsets are within the index
        EXPECT_EQ(find_in_forged(reader), SlotAddress{}) << depth;
        EXPECT_LE(reader.facts.groups, 16u);
    }
}

TEST_F(ForgedBucket, keeps_no_reader_busy) {
    view.entries = {};
    view.spilled = 0b1110;
    IndexReader reader = bench.reader();
    find_in_forged(reader);
    EXPECT_LE(reader.reads, IndexLookup::kReadsMax);
    view.spilled = 1;
    find_in_forged(reader);
    EXPECT_EQ(reader.last, IndexLookup::Next::kTorn) << "no bucket spills into itself";
}

// --- growth during reads

TEST(SlotIndex, is_read_correctly_by_another_thread_while_it_grows_and_shrinks) {
    constexpr uint64_t kKeys = 3000;
    IndexBench bench(1 << 10);
    const IndexReader first = bench.reader();
    std::atomic<bool> stop{false};
    uint64_t hits = 0, wrong = 0;
    std::thread thread([&] {
        IndexReader reader = first;
        // Read each key once more after the writer has ended, which may be before this thread first ran.
        for (uint64_t turn = 0, left = kKeys; left > 0; turn++, left -= stop ? 1 : 0) {
            if (turn % 512 == 0) reader = first;  // the reader forgets what it has read
            const uint64_t key = turn * 7 % kKeys;
            const SlotAddress found = reader.find(print_of(key));
            hits += found.bytes != 0;
            wrong += found.bytes != 0 && found != slot_of(key);
        }
    });
    std::vector<bool> has(kKeys);
    for (uint64_t round = 0; round < 5; round++)
        for (uint64_t key = 0; key < kKeys; key++) {
            if (has[key]) bench.index.erase(print_of(key), slot_of(key));
            has[key] = (key + round) % 3 != 0 && bench.index.insert(print_of(key), slot_of(key));
        }
    stop = true;
    thread.join();
    EXPECT_GT(hits, 0u);
    EXPECT_EQ(wrong, 0u);
}

// --- the index of a store

struct IndexedStore : testing::Test {
    Bench bench;
    IndexReader reader() {
        return {.arena = bench.store->arena(),
                .memory = reinterpret_cast<const std::byte*>(bench.index.data()),
                .facts = bench.store->index()};
    }
    // Reads a key through the index, the slot and the record.
    std::optional<std::string> read(const std::string& key) {
        return bench.read_remotely(key, reader().find(fingerprint(key))).latest;
    }
    void expect_readers() {
        bench.store->expect_readers();
        bench.pass(from_ms(5));
    }
};

TEST_F(IndexedStore, shows_no_unrequested_key_before_a_reader_connects) {
    EXPECT_EQ(bench.put(10, {{"x", "value"}}), Answer::kOk);
    bench.pass(from_ms(5));
    EXPECT_EQ(read("x"), std::nullopt);
    EXPECT_EQ(bench.store->statistics().indexed, 0u);
    const SlotAddress asked = bench.store->get("x").slot;
    EXPECT_EQ(reader().find(fingerprint("x")), asked);
    EXPECT_EQ(read("x"), "value");
}

TEST_F(IndexedStore, shows_old_and_new_keys_once_readers_are_connected) {
    for (int key = 0; key < 300; key++)
        EXPECT_EQ(
            bench.put(10 + static_cast<uint64_t>(key), {{"key" + std::to_string(key), std::to_string(key)}}),
            Answer::kOk);
    expect_readers();
    for (int key = 300; key < 600; key++)
        EXPECT_EQ(
            bench.put(10 + static_cast<uint64_t>(key), {{"key" + std::to_string(key), std::to_string(key)}}),
            Answer::kOk);
    for (int key = 0; key < 600; key++) EXPECT_EQ(read("key" + std::to_string(key)), std::to_string(key));
    EXPECT_EQ(bench.store->statistics().indexed, 600u);
}

TEST_F(IndexedStore, shows_the_new_value_of_an_overwritten_key) {
    expect_readers();
    for (uint64_t ts = 10; ts < 30; ts++) {
        EXPECT_EQ(bench.put(ts, {{"x", std::to_string(ts)}}), Answer::kOk);
        EXPECT_EQ(read("x"), std::to_string(ts));
    }
    EXPECT_EQ(bench.store->statistics().indexed, 1u);
}

TEST_F(IndexedStore, shows_no_key_without_a_committed_value) {
    expect_readers();
    EXPECT_EQ(bench.prepare(10, {{"x", "value"}}), Answer::kOk);
    EXPECT_EQ(reader().find(fingerprint("x")), SlotAddress{});
    EXPECT_EQ(bench.store->commit({10}), Answer::kOk);
    EXPECT_EQ(read("x"), "value");
}

TEST_F(IndexedStore, drops_a_deleted_key_with_its_slot_and_shows_it_again_when_it_is_written) {
    expect_readers();
    EXPECT_EQ(bench.put(10, {{"x", "value"}}), Answer::kOk);
    const SlotAddress old = reader().find(fingerprint("x"));
    EXPECT_EQ(bench.erase(20, "x"), Answer::kOk);
    bench.store->raise_floor({25});
    bench.pass(from_s(60));
    bench.pass(from_s(60));
    EXPECT_EQ(bench.store->statistics().keys, 0u);
    EXPECT_EQ(reader().find(fingerprint("x")), SlotAddress{});
    EXPECT_EQ(bench.read_remotely("x", old).slot, SlotStatus::kStale);
    EXPECT_EQ(bench.put(30, {{"x", "again"}}), Answer::kOk);
    EXPECT_EQ(read("x"), "again");
    EXPECT_EQ(bench.read_remotely("x", old).slot, SlotStatus::kStale);
}

TEST_F(IndexedStore, allocates_only_requested_slots_if_the_arena_is_filling_up) {
    const std::string value(100'000, 'v');
    std::vector<std::string> keys;
    for (int key = 0; bench.store->statistics().arena_used * 100 < bench.store->arena().bytes * 80; key++) {
        keys.push_back("key" + std::to_string(key));
        ASSERT_EQ(bench.put(10 + static_cast<uint64_t>(key), {{keys.back(), value}}), Answer::kOk);
    }
    expect_readers();
    EXPECT_EQ(bench.store->statistics().indexed, 0u);
    EXPECT_NE(bench.store->get(keys[0]).slot.bytes, 0u) << "a requested key gets a slot";
    EXPECT_EQ(read(keys[0]), value);
}

TEST_F(IndexedStore, gives_slots_to_fewer_old_keys_at_a_time_if_values_are_large) {
    const std::string value(100'000, 'v');
    for (uint64_t key = 0; key < 12; key++)
        EXPECT_EQ(bench.put(10 + key, {{"key" + std::to_string(key), value}}), Answer::kOk);
    bench.store->expect_readers();
    uint64_t before = 0;
    for (int turn = 0; turn < 100 && before < 12; turn++) {
        bench.pass(from_ms(5));
        const uint64_t indexed = bench.store->statistics().indexed;
        EXPECT_LE(indexed - before, 6u) << "a record of a slot is read completely for its checksum";
        before = indexed;
    }
    EXPECT_EQ(before, 12u);
}

// Superseded versions of keys with slots are kept for a while, however many are written in that time.
TEST_F(IndexedStore, collects_superseded_versions_as_fast_as_they_are_written) {
    expect_readers();
    uint64_t ts = 10, used = 0;
    for (int turn = 0; turn < 40; turn++) {
        for (int i = 0; i < 3000; i++, ts++) {
            const std::string key = "key" + std::to_string(i % 300);
            const Write write{.key = key, .value = bytes_of("value")};
            const Transaction transaction{.timestamp = {ts}, .writes = {&write, 1}, .alone = true};
            ASSERT_EQ(bench.store->put(transaction, {}), Answer::kOk);
        }
        bench.clock.pass(from_ms(5));
        bench.store->maintain({});
        if (turn == 9) used = bench.store->statistics().arena_used;
    }
    EXPECT_LE(bench.store->statistics().versions, 6 * 3000u) << "four turns are in the window";
    EXPECT_LT(bench.store->statistics().arena_used, used * 3 / 2);
}

TEST(IndexedSpill, removes_keys_that_are_evicted_to_disk_from_the_index) {
    Bench bench({.durability = Durability::kAsync, .window = from_ms(500)}, size_t{1} << 20);
    bench.store->expect_readers();
    const std::string value(2000, 'v');
    for (int key = 0; key < 2000; key++) {
        bench.write(static_cast<uint64_t>(10 + key), {{"key" + std::to_string(key), value}}, true, {});
        bench.persist();
        if (key % 50 == 0) bench.pass(from_ms(600));
    }
    const Statistics kept = bench.store->statistics();
    ASSERT_GT(kept.cold_versions, 100u);
    uint64_t in_index = 0;
    for (int key = 0; key < 2000; key++) {
        const std::string name = "key" + std::to_string(key);
        IndexReader reader{.arena = bench.store->arena(),
                           .memory = reinterpret_cast<const std::byte*>(bench.index.data()),
                           .facts = bench.store->index()};
        const SlotAddress slot = reader.find(fingerprint(name));
        EXPECT_EQ(slot, bench.store->get(name, false).slot);
        in_index += slot.bytes != 0;
        if (slot.bytes != 0) {
            EXPECT_EQ(bench.read_remotely(name, slot).slot, SlotStatus::kOk);
        }
    }
    EXPECT_EQ(in_index, kept.indexed);
    EXPECT_LT(in_index, 2000u - 100u);
}

}  // namespace wss::kv::store
