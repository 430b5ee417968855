// SPDX-License-Identifier: Apache-2.0
// Recovery: the map of dirty lines is restored from the headers that engines kept.
#include "lib/cache/recovery.h"

#include <gtest/gtest.h>

#include "tests/unit/cache/bench.h"

namespace wss::cache::testing {
namespace {

constexpr uint64_t kWwid = 0xabcdef, kIncarnation = 5, kBytes = 1 << 30;

struct CacheRecovery : ::testing::Test {
    CacheRecovery() { recovery.add_volume(kWwid, 2, kBytes); }
    static LineHeader header(uint64_t line, uint64_t generation, SubBlocks dirty) {
        return {.volume = kWwid,
                .line = line,
                .generation = generation,
                .incarnation = kIncarnation,
                .valid = kAll,
                .dirty = dirty};
    }
    void add(uint8_t engine, uint32_t slot, const LineHeader& header, int damage_at = -1) {
        std::array<std::byte, kHeaderBytes> bytes;
        write_header(header, bytes);
        if (damage_at >= 0) bytes[static_cast<size_t>(damage_at)] ^= std::byte{1};
        recovery.add_header({{engine}, slot}, kIncarnation, bytes);
    }
    RecoveryReport restore() {
        recovery.compare(SIZE_MAX);
        RecoveryReport report = recovery.restore(bench.index);
        while (recovery.any_left()) {
            size_t looks = 1;
            if (auto loser = recovery.next_loser(looks)) (loser->wipe ? wipe : erase).push_back(loser->slot);
        }
        return report;
    }
    static bool holds(std::span<const ArenaSlot> slots, uint8_t engine, uint32_t number) {
        return std::find(slots.begin(), slots.end(), ArenaSlot{{engine}, number}) != slots.end();
    }
    Bench bench{3, 8};
    Recovery recovery{LineGeometry{}, [](uint64_t wwid) { return wwid == kWwid; }};
    std::vector<ArenaSlot> erase, wipe;
};

TEST_F(CacheRecovery, finds_dirty_lines_in_the_engines_that_hold_them) {
    add(1, 6, header(77, 9, sub_block(2)));
    RecoveryReport report = restore();
    EXPECT_EQ(report.dirty_lines, 1u);
    Line* line = bench.index.find({2, 77});
    ASSERT_NE(line, nullptr);
    EXPECT_EQ(line->state(), LineState::kDirty);
    EXPECT_EQ(line->dirty(), sub_block(2));
    EXPECT_EQ(line->valid(), sub_block(2)) << "clean sub-blocks do not count after a crash";
    EXPECT_EQ(line->holders()[0], (ArenaSlot{{1}, 6}));
    EXPECT_EQ(bench.index.used_slots({1}), 1u);
    EXPECT_TRUE(erase.empty());
    EXPECT_TRUE(bench.index.consistent());
    bench.with({2, 77}, kAll, Access::kExclusive, [&](Line& l) { EXPECT_GT(bench.index.stamp(l), 9u); });
}

// An engine for which the recovery did not wait may have a newer copy. Readers do not see that copy's data.
TEST_F(CacheRecovery, passes_over_newer_copies_of_a_restored_line_up_to_its_next_write) {
    add(1, 6, header(77, 9, sub_block(2)));
    restore();
    uint64_t next = 0;
    bench.with({2, 77}, kAll, Access::kExclusive, [&](Line& line) { next = bench.index.stamp(line); });
    const Loss loss = bench.index.lose_engine({1});
    ASSERT_EQ(loss.lost.size(), 1u);
    EXPECT_EQ(loss.lost[0].generation, 9u);
    EXPECT_EQ(loss.lost[0].bounds.passed_over, next - 1);
    EXPECT_GT(next, uint64_t{1} << 40) << "newer than any copy that it did not see";
}

TEST_F(CacheRecovery, lets_the_newer_of_two_copies_win_completely) {
    add(0, 1, header(3, 10, sub_block(0)));
    add(1, 2, header(3, 11, sub_block(1)));
    RecoveryReport report = restore();
    EXPECT_EQ(report.older, 1u);
    Line* line = bench.index.find({2, 3});
    ASSERT_NE(line, nullptr);
    EXPECT_EQ(line->dirty(), sub_block(1)) << "bitmaps are not mixed";
    EXPECT_EQ(line->holders()[0], (ArenaSlot{{1}, 2}));
    EXPECT_TRUE(holds(erase, 0, 1));
}

TEST_F(CacheRecovery, prefers_the_copy_with_more_dirty_sub_blocks_if_generations_are_equal) {
    add(0, 1, header(3, 10, sub_block(0)));
    add(1, 2, header(3, 10, sub_block(0) | sub_block(1)));
    restore();
    EXPECT_EQ(bench.index.find({2, 3})->dirty(), sub_block(0) | sub_block(1));
}

TEST_F(CacheRecovery, does_not_erase_clean_headers) {
    add(0, 0, header(1, 1, {}));
    add(0, 1, header(2, 50, {}));
    restore();
    EXPECT_TRUE(erase.empty());
    EXPECT_TRUE(wipe.empty());
    EXPECT_EQ(bench.index.counters().lines, 0u);
}

// The order of their arrival must not matter.
TEST_F(CacheRecovery, lets_a_newer_clean_copy_supersede_an_older_dirty_one) {
    add(0, 1, header(3, 10, sub_block(0)));
    add(0, 2, header(4, 11, {}));
    recovery.compare(SIZE_MAX);
    add(1, 1, header(3, 11, {}));
    EXPECT_FALSE(recovery.compared());
    recovery.compare(SIZE_MAX);
    add(1, 2, header(4, 10, sub_block(0)));
    EXPECT_FALSE(recovery.compared());
    RecoveryReport report = restore();
    EXPECT_EQ(report.dirty_lines, 0u);
    EXPECT_EQ(report.older, 2u);
    EXPECT_TRUE(holds(erase, 0, 1) && holds(erase, 1, 2));
    EXPECT_EQ(erase.size(), 2u) << "should this be interrupted, the clean ones must win again";
}

TEST_F(CacheRecovery, lets_no_clean_copy_supersede_a_dirty_one_of_the_same_generation) {
    add(0, 1, header(3, 10, sub_block(0)));
    add(1, 1, header(3, 10, {}));
    EXPECT_EQ(restore().dirty_lines, 1u);
    EXPECT_TRUE(erase.empty());
}

TEST_F(CacheRecovery, ignores_headers_of_an_engine_after_its_loss) {
    add(0, 1, header(3, 10, sub_block(0)));
    add(1, 1, header(3, 11, {}));
    add(1, 2, header(4, 11, sub_block(0)));
    add(1, 3, header(5, 11, sub_block(0)), 20);
    LineHeader deleted = header(1, 2, {});
    deleted.volume = kWwid + 1;
    add(1, 4, deleted);
    recovery.compare(SIZE_MAX);
    recovery.forget({1});
    EXPECT_EQ(restore().dirty_lines, 1u);
    EXPECT_NE(bench.index.find({2, 3}), nullptr);
    EXPECT_TRUE(erase.empty());
    EXPECT_TRUE(wipe.empty());
}

TEST_F(CacheRecovery, compares_clean_copies_a_few_at_a_time) {
    for (uint32_t slot = 0; slot < 5; ++slot) add(0, slot, header(slot, 10, {}));
    recovery.compare(2);
    EXPECT_FALSE(recovery.compared());
    recovery.compare(3);
    EXPECT_TRUE(recovery.compared());
    for (uint32_t slot = 5; slot < 8; ++slot) add(0, slot, header(slot, 1, {}));
    EXPECT_TRUE(recovery.compared()) << "lines that were filled and never written are dropped on arrival";
}

TEST_F(CacheRecovery, erases_foreign_and_invalid_headers) {
    add(0, 0, header(2, 1, sub_block(0)), 20);  // partly written
    LineHeader foreign = header(3, 99, sub_block(0));
    foreign.incarnation = kIncarnation - 1;
    add(0, 1, foreign);
    LineHeader other_size = header(4, 1, sub_block(0));
    other_size.line_shift = 17;
    add(0, 2, other_size);
    RecoveryReport report = restore();
    EXPECT_EQ(report.dirty_lines, 0u);
    EXPECT_EQ(report.headers, 3u);
    EXPECT_EQ(report.refused, 2u);
    EXPECT_EQ(report.foreign, 1u);
    for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_TRUE(holds(erase, 0, slot)) << slot;
    EXPECT_EQ(bench.index.counters().lines, 0u);
}

TEST_F(CacheRecovery, marks_slots_of_deleted_volumes_for_wiping) {
    LineHeader deleted = header(1, 1, sub_block(0));
    deleted.volume = kWwid + 1;
    add(0, 0, deleted);
    add(0, 1, header(kBytes / 65536, 1, sub_block(0)));  // the first line beyond the end
    deleted.dirty = {};
    add(0, 2, deleted);
    add(0, 3, header(kBytes / 65536, 2, {}));
    RecoveryReport report = restore();
    EXPECT_EQ(report.unknown_volume, 2u);
    for (uint32_t slot = 0; slot < 4; ++slot) EXPECT_TRUE(holds(wipe, 0, slot)) << slot;
}

TEST_F(CacheRecovery, tolerates_empty_slots_and_slots_beyond_the_engine) {
    std::array<std::byte, kHeaderBytes> empty{};
    recovery.add_header({{0}, 0}, kIncarnation, empty);
    add(0, 800, header(1, 1, sub_block(0)));
    add(40, 0, header(2, 1, sub_block(0)));
    RecoveryReport report = restore();
    EXPECT_EQ(report.headers, 2u);
    EXPECT_EQ(report.dirty_lines, 0u);
    EXPECT_TRUE(bench.index.consistent());
}

}  // namespace
}  // namespace wss::cache::testing
