// SPDX-License-Identifier: Apache-2.0
// Recovery: the map of dirty lines from the headers that engines kept.
#include "lib/cache/recovery.h"

#include <gtest/gtest.h>

#include "tests/unit/cache/bench.h"

namespace wss::cache::testing {
namespace {

constexpr uint64_t kWwid = 0xabcdef, kIncarnation = 5, kBytes = 1 << 30;

struct RecoveryTest : ::testing::Test {
    RecoveryTest() { recovery.add_volume(kWwid, 2, kBytes); }
    static LineHeader header(uint64_t line, uint64_t generation, Pieces dirty) {
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
    static bool holds(std::span<const Slot> slots, uint8_t engine, uint32_t number) {
        return std::find(slots.begin(), slots.end(), Slot{{engine}, number}) != slots.end();
    }
    Bench bench{3, 8};
    Recovery recovery{LineGeometry{}};
};

TEST_F(RecoveryTest, dirty_lines_are_found_where_they_are) {
    add(1, 6, header(77, 9, piece(2)));
    RecoveryReport report = recovery.restore(bench.index);
    EXPECT_EQ(report.dirty_lines, 1u);
    Line* line = bench.index.find({2, 77});
    ASSERT_NE(line, nullptr);
    EXPECT_EQ(line->state(), LineState::kDirty);
    EXPECT_EQ(line->dirty(), piece(2));
    EXPECT_EQ(line->valid(), piece(2)) << "clean pieces do not count after a crash";
    EXPECT_EQ(line->holders()[0], (Slot{{1}, 6}));
    EXPECT_EQ(bench.index.used_slots({1}), 1u);
    EXPECT_TRUE(recovery.erase().empty());
    EXPECT_TRUE(bench.index.consistent());
    bench.with({2, 77}, kAll, Access::kExclusive, [&](Line& l) { EXPECT_GT(bench.index.stamp(l), 9u); });
}

// An engine that it did without may have one: readers see the line without what that has.
TEST_F(RecoveryTest, newer_copies_of_what_was_restored_are_passed_over_up_to_what_is_written_next) {
    add(1, 6, header(77, 9, piece(2)));
    recovery.restore(bench.index);
    uint64_t next = 0;
    bench.with({2, 77}, kAll, Access::kExclusive, [&](Line& line) { next = bench.index.stamp(line); });
    const Loss loss = bench.index.lose_engine({1});
    ASSERT_EQ(loss.lost.size(), 1u);
    EXPECT_EQ(loss.lost[0].generation, 9u);
    EXPECT_EQ(loss.lost[0].bounds.passed_over, next - 1);
    EXPECT_GT(next, uint64_t{1} << 40) << "newer than any that it did not see";
}

TEST_F(RecoveryTest, the_newest_of_two_copies_wins_wholly) {
    add(0, 1, header(3, 10, piece(0)));
    add(1, 2, header(3, 11, piece(1)));
    RecoveryReport report = recovery.restore(bench.index);
    EXPECT_EQ(report.older, 1u);
    Line* line = bench.index.find({2, 3});
    ASSERT_NE(line, nullptr);
    EXPECT_EQ(line->dirty(), piece(1)) << "bitmaps are not mixed";
    EXPECT_EQ(line->holders()[0], (Slot{{1}, 2}));
    EXPECT_TRUE(holds(recovery.erase(), 0, 1));
}

TEST_F(RecoveryTest, of_equal_generations_the_copy_with_more_dirty_pieces_wins) {
    add(0, 1, header(3, 10, piece(0)));
    add(1, 2, header(3, 10, piece(0) | piece(1)));
    recovery.restore(bench.index);
    EXPECT_EQ(bench.index.find({2, 3})->dirty(), piece(0) | piece(1));
}

TEST_F(RecoveryTest, clean_lines_and_what_is_not_ours_is_erased) {
    add(0, 0, header(1, 1, {}));
    add(0, 1, header(2, 1, piece(0)), 20);  // half written
    LineHeader foreign = header(3, 99, piece(0));
    foreign.incarnation = kIncarnation - 1;
    add(0, 2, foreign);
    LineHeader other_size = header(4, 1, piece(0));
    other_size.line_shift = 17;
    add(0, 3, other_size);
    RecoveryReport report = recovery.restore(bench.index);
    EXPECT_EQ(report.dirty_lines, 0u);
    EXPECT_EQ(report.headers, 4u);
    EXPECT_EQ(report.refused, 2u);
    EXPECT_EQ(report.foreign, 1u);
    for (uint32_t slot = 0; slot < 4; ++slot) EXPECT_TRUE(holds(recovery.erase(), 0, slot)) << slot;
    EXPECT_EQ(bench.index.counters().lines, 0u);
}

TEST_F(RecoveryTest, slots_of_deleted_volumes_are_for_wiping) {
    LineHeader deleted = header(1, 1, piece(0));
    deleted.volume = kWwid + 1;
    add(0, 0, deleted);
    add(0, 1, header(kBytes / 65536, 1, piece(0)));  // the first line beyond the end
    RecoveryReport report = recovery.restore(bench.index);
    EXPECT_EQ(report.unknown_volume, 2u);
    EXPECT_TRUE(holds(recovery.wipe(), 0, 0) && holds(recovery.wipe(), 0, 1));
}

TEST_F(RecoveryTest, empty_slots_and_slots_beyond_the_engine_do_no_harm) {
    std::array<std::byte, kHeaderBytes> empty{};
    recovery.add_header({{0}, 0}, kIncarnation, empty);
    add(0, 800, header(1, 1, piece(0)));
    add(40, 0, header(2, 1, piece(0)));
    RecoveryReport report = recovery.restore(bench.index);
    EXPECT_EQ(report.headers, 2u);
    EXPECT_EQ(report.dirty_lines, 0u);
    EXPECT_TRUE(bench.index.consistent());
}

}  // namespace
}  // namespace wss::cache::testing
