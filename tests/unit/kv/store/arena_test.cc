// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/arena.h"

#include <gtest/gtest.h>

#include <map>

#include "lib/base/clock.h"

namespace wss::kv::store {
namespace {

constexpr size_t kBytes = size_t{8} << 20;

TEST(KvArena, never_allocates_overlapping_memory_and_recovers_all_that_is_freed) {
    std::vector<uint64_t> memory(kBytes / 8);
    Arena arena(std::as_writable_bytes(std::span(memory)));
    Random random(5);
    std::map<uint64_t, std::pair<size_t, bool>> live;  // offset → size, and whether it is an extent
    for (int step = 0; step < 20000; step++) {
        if (!live.empty() && random.below(100) < 48) {
            auto victim = live.lower_bound(random.below(kBytes));
            if (victim == live.end()) victim = live.begin();
            const auto [bytes, extent] = victim->second;
            extent ? arena.free_extent(victim->first, bytes) : arena.free_record(victim->first, bytes);
            live.erase(victim);
            continue;
        }
        const bool extent = random.chance(4);
        const size_t sizes[] = {64, 100, 1000, 5000, 16384, 20000, 300000};
        const size_t bytes =
            extent ? 192 + 2 * Arena::class_bytes(100) : sizes[random.below(7)] - random.below(36);
        const uint64_t at = extent ? arena.allocate_extent(bytes) : arena.allocate_record(bytes);
        if (at == Arena::kNowhere) continue;
        ASSERT_LE(at + bytes, arena.bytes());
        ASSERT_EQ(at % 8, 0u);
        auto next = live.lower_bound(at);
        ASSERT_TRUE(next == live.end() || next->first >= at + bytes);
        if (next != live.begin()) {
            auto before = std::prev(next);
            ASSERT_LE(before->first + before->second.first, at);
        }
        live[at] = {bytes, extent};
    }
    for (const auto& [at, piece] : live)
        piece.second ? arena.free_extent(at, piece.first) : arena.free_record(at, piece.first);
    EXPECT_EQ(arena.used(), 0u);
}

TEST(KvArena, wastes_at_most_a_fifth_of_a_cell) {
    for (size_t bytes = Arena::kCellMin; bytes <= Arena::kCellMax; bytes += 8) {
        EXPECT_GE(Arena::class_bytes(bytes), bytes);
        EXPECT_LE(Arena::class_bytes(bytes) * 4, bytes * 5 + 64) << bytes;
        EXPECT_EQ(Arena::class_bytes(bytes) % 8, 0u);
    }
}

TEST(KvArena, never_uses_a_page_that_served_slots_for_records) {
    std::vector<uint64_t> memory(2 * Arena::kPageBytes / 8);
    Arena arena(std::as_writable_bytes(std::span(memory)));
    const uint64_t slot = arena.allocate_extent(192);
    arena.free_extent(slot, 192);
    std::vector<uint64_t> records;
    for (uint64_t at = 0; (at = arena.allocate_record(1000)) != Arena::kNowhere;) records.push_back(at);
    EXPECT_FALSE(records.empty());
    for (uint64_t at : records) EXPECT_NE(at / Arena::kPageBytes, slot / Arena::kPageBytes);
}

TEST(KvArena, keeps_a_reserve_for_tombstones_from_values_and_slots) {
    std::vector<uint64_t> memory(kBytes / 8);
    Arena arena(std::as_writable_bytes(std::span(memory)));
    while (arena.allocate_extent(192) != Arena::kNowhere) {
    }
    uint64_t values = 0;
    for (size_t bytes : {300'000, 3000, 100})
        while (arena.allocate_record(bytes) != Arena::kNowhere) values += bytes;
    EXPECT_GT(values, kBytes / 8) << "slots do not use everything";
    uint64_t tombstones = 0;
    while (arena.allocate_record(100, Arena::Use::kTombstone) != Arena::kNowhere) tombstones++;
    EXPECT_GT(tombstones, kBytes / 16 / 128);
}

TEST(KvArena, keeps_the_reserve_from_values_as_small_as_tombstones) {
    std::vector<uint64_t> memory(kBytes / 8);
    Arena arena(std::as_writable_bytes(std::span(memory)));
    const auto fill = [&] {
        while (arena.allocate_record(100) != Arena::kNowhere) {
        }
    };
    fill();
    std::vector<uint64_t> tombstones;
    for (uint64_t at = 0; (at = arena.allocate_record(100, Arena::Use::kTombstone)) != Arena::kNowhere;) {
        tombstones.push_back(at);
        fill();
    }
    EXPECT_GT(tombstones.size(), kBytes / 16 / 128);
    for (uint64_t at : tombstones) arena.free_record(at, 100);
    EXPECT_EQ(arena.allocate_record(100), Arena::kNowhere) << "and freed memory of the reserve returns to it";
    EXPECT_NE(arena.allocate_record(1000, Arena::Use::kTombstone), Arena::kNowhere);
}

TEST(KvArena, uses_a_larger_cell_for_a_record_whose_own_class_has_no_page) {
    std::vector<uint64_t> memory(4 * Arena::kPageBytes / 8);
    Arena arena(std::as_writable_bytes(std::span(memory)));
    std::vector<uint64_t> cells;
    for (uint64_t at = 0; (at = arena.allocate_record(1000)) != Arena::kNowhere;) cells.push_back(at);
    const uint64_t used = arena.used();
    arena.free_record(cells.back(), 1000);
    const uint64_t other = arena.allocate_record(700);
    EXPECT_EQ(other, cells.back());
    arena.free_record(other, 700);
    EXPECT_EQ(arena.allocate_record(1000), cells.back());
    EXPECT_EQ(arena.used(), used);
}

TEST(KvArena, uses_an_empty_page_of_records_for_other_sizes) {
    std::vector<uint64_t> memory(4 * Arena::kPageBytes / 8);
    Arena arena(std::as_writable_bytes(std::span(memory)));
    std::vector<uint64_t> records;
    for (uint64_t at = 0; (at = arena.allocate_record(100)) != Arena::kNowhere;) records.push_back(at);
    for (uint64_t at : records) arena.free_record(at, 100);
    EXPECT_NE(arena.allocate_record(3 * Arena::kPageBytes), Arena::kNowhere);
}

}  // namespace
}  // namespace wss::kv::store
