// SPDX-License-Identifier: Apache-2.0
// The choice of dirty lines to destage, alone or in runs; and read-ahead.
#include "lib/cache/destage.h"

#include <gtest/gtest.h>

#include "lib/cache/readahead.h"
#include "tests/unit/cache/bench.h"

namespace wss::cache::testing {
namespace {

std::vector<uint64_t> lines_of(std::span<Line* const> run) {
    std::vector<uint64_t> lines;
    for (const Line* line : run) lines.push_back(line->key().line);
    return lines;
}

struct Destaging : ::testing::Test {
    using Look = DestagePlanner::Look;
    std::vector<uint64_t> next(Nanoseconds now, uint32_t volume = 0) {
        std::array<Line*, kDestageRunMax> run;
        size_t count = planner.next(bench.index, volume, now, run, [this](const Line& line) {
            const uint64_t number = line.key().line;
            if (asked_for == number) return Look::kAskedFor;
            return number >= silent_first && number < silent_end ? Look::kSilent : Look::kYes;
        });
        return lines_of(std::span(run).first(count));
    }
    // Fails the destage of the next line. Returns that line, or kNone.
    static constexpr uint64_t kNone = UINT64_MAX;
    uint64_t fail_next(Nanoseconds now) {
        const std::vector<uint64_t> run = next(now);
        if (run.empty()) return kNone;
        bench.destage({0, run[0]}, Index::Destaged::kFailed);
        planner.failed(now);
        return run[0];
    }
    uint64_t take_next(Nanoseconds now) {
        const std::vector<uint64_t> run = next(now);
        if (run.empty()) return kNone;
        const bool again = planner.retries();
        bench.destage({0, run[0]});
        planner.succeeded(again);
        return run[0];
    }
    // The lines are far apart, so that none is destaged together with another.
    void write_lines(uint64_t count) {
        for (uint64_t i = 0; i < count; ++i) ASSERT_TRUE(bench.write({0, i * 10}, sub_block(0), from_s(0)));
    }
    Bench bench{2, 100};
    uint64_t silent_first = 0, silent_end = 0;
    DestagePlanner planner{DestageOptions{}};
    uint64_t asked_for = UINT64_MAX;
};
using Lines = std::vector<uint64_t>;

TEST_F(Destaging, takes_a_dirty_line_when_it_is_old_enough) {
    ASSERT_TRUE(bench.write({0, 7}, sub_block(0), from_s(10)));
    EXPECT_EQ(next(from_s(14)), Lines{});
    EXPECT_EQ(next(from_s(15)), Lines{7});
}

TEST_F(Destaging, includes_adjacent_lines_in_ascending_order) {
    for (uint64_t line : {12, 10, 11, 13, 15, 9})
        ASSERT_TRUE(bench.write({0, line}, sub_block(0), from_s(9)));
    ASSERT_TRUE(bench.write({1, 14}, sub_block(0), from_s(1)));
    EXPECT_EQ(next(from_s(14)), (Lines{9, 10, 11, 12, 13})) << "neither 14, of another volume, nor 15";
}

TEST_F(Destaging, leaves_out_an_adjacent_line_in_use) {
    for (uint64_t line : {1, 2, 3}) ASSERT_TRUE(bench.write({0, line}, sub_block(0), from_s(1)));
    LineOp read;
    read.sub_blocks = sub_block(0);
    bench.index.enter(*bench.index.find({0, 2}), read);
    EXPECT_EQ(next(from_s(10)), Lines{1});
    Granted granted;
    bench.index.leave(read, granted);
}

TEST_F(Destaging, is_not_held_up_by_an_awaited_line) {
    for (uint64_t line : {7, 20, 21}) ASSERT_TRUE(bench.write({0, line}, sub_block(0), from_s(1)));
    asked_for = 7;
    EXPECT_EQ(next(from_s(10)), (Lines{20, 21}));
}

// If a run contained a line of the silent part, storage would not answer for any of its lines.
TEST_F(Destaging, ends_a_run_where_storage_is_silent) {
    for (uint64_t line : {12, 10, 11, 13, 14}) ASSERT_TRUE(bench.write({0, line}, sub_block(0), from_s(1)));
    silent_first = 13;
    silent_end = 20;
    EXPECT_EQ(next(from_s(10)), (Lines{10, 11, 12}));
    silent_first = 0;
    silent_end = 12;
    EXPECT_EQ(next(from_s(10)), (Lines{12, 13, 14}));
}

TEST_F(Destaging, makes_runs_of_at_most_one_transfer) {
    for (uint64_t line = 0; line < 40; ++line) ASSERT_TRUE(bench.write({0, line}, sub_block(0), from_s(1)));
    EXPECT_EQ(next(from_s(10)).size(), 16u) << "1 MiB of 64 KiB lines";
}

TEST_F(Destaging, continues_from_too_many_dirty_lines_until_few_are_left) {
    // 40 % of the 200 slots are 80 lines.
    uint64_t line = 0;
    for (; line <= 80; ++line) ASSERT_TRUE(bench.write({0, line * 2}, sub_block(0), from_s(1)));
    uint64_t gone = 0;
    while (!next(from_s(2)).empty()) {
        bench.destage({0, next(from_s(2)).front()});
        ASSERT_LE(++gone, 81u);
    }
    EXPECT_EQ(bench.index.dirty_lines(0), 50u) << "25 %";
    EXPECT_TRUE(bench.write({0, 1001}, sub_block(0), from_s(2)));
    EXPECT_EQ(next(from_s(2)), Lines{}) << "not again before the high mark";
}

TEST_F(Destaging, is_due_at_once_for_lines_that_a_flush_waits_for) {
    ASSERT_TRUE(bench.write({0, 5}, sub_block(0), from_s(1)));
    planner.want(bench.index.flush_mark());
    ASSERT_TRUE(bench.write({0, 50}, sub_block(0), from_s(1)));
    EXPECT_EQ(next(from_s(1)), Lines{5});
    bench.destage({0, 5});
    EXPECT_EQ(next(from_s(1)), Lines{}) << "written after the flush";
}

TEST_F(Destaging, retries_a_failed_line_less_and_less_often) {
    ASSERT_TRUE(bench.write({0, 5}, sub_block(0), from_s(0)));
    EXPECT_EQ(fail_next(from_s(10)), 5u);
    EXPECT_EQ(next(from_s(10)), Lines{});
    EXPECT_EQ(next(from_s(10) + from_ms(99)), Lines{});
    EXPECT_EQ(fail_next(from_s(10) + from_ms(100)), 5u);
    EXPECT_EQ(next(from_s(10) + from_ms(299)), Lines{});
    EXPECT_EQ(fail_next(from_s(10) + from_ms(300)), 5u);
    Nanoseconds now = from_s(11);
    for (int i = 0; i < 20; ++i, now = now + from_s(10)) EXPECT_EQ(fail_next(now), 5u) << i;
    EXPECT_EQ(next(now - from_ms(1)), Lines{});
    EXPECT_EQ(take_next(now), 5u);
    EXPECT_FALSE(planner.failing());
}

TEST_F(Destaging, is_not_held_up_by_a_failed_line) {
    write_lines(4);
    EXPECT_EQ(fail_next(from_s(10)), 0u);
    EXPECT_TRUE(planner.suspect());
    EXPECT_EQ(take_next(from_s(10)), 10u);
    EXPECT_FALSE(planner.suspect());
    EXPECT_EQ(fail_next(from_s(10)), 20u);
    EXPECT_EQ(take_next(from_s(10)), 30u);
    EXPECT_EQ(next(from_s(10)), Lines{});
    EXPECT_EQ(bench.index.dirty_lines(0), 2u);
}

TEST_F(Destaging, tries_failed_lines_in_turn_and_one_after_each_pause) {
    write_lines(3);
    for (uint64_t line : {0u, 10u, 20u}) EXPECT_EQ(fail_next(from_s(10)), line);
    EXPECT_EQ(fail_next(from_s(20)), 0u);
    EXPECT_EQ(next(from_s(20)), Lines{});
    EXPECT_EQ(fail_next(from_s(30)), 10u);
    EXPECT_EQ(fail_next(from_s(40)), 20u);
    EXPECT_EQ(fail_next(from_s(50)), 0u);
    EXPECT_EQ(next(from_s(60)), Lines{10});
    EXPECT_EQ(next(from_s(60)), Lines{}) << "the result of that one is not known yet";
}

TEST_F(Destaging, tries_failed_lines_at_once_when_storage_accepts_one_of_them) {
    write_lines(3);
    for (uint64_t line : {0u, 10u, 20u}) EXPECT_EQ(fail_next(from_s(10)), line);
    EXPECT_EQ(take_next(from_s(20)), 0u);
    EXPECT_EQ(take_next(from_s(20)), 10u);
    EXPECT_EQ(take_next(from_s(20)), 20u);
}

TEST_F(Destaging, does_not_end_the_pause_of_failed_lines_after_a_success_elsewhere) {
    write_lines(2);
    EXPECT_EQ(fail_next(from_s(10)), 0u);
    EXPECT_EQ(fail_next(from_s(20)), 0u);
    EXPECT_EQ(take_next(from_s(20)), 10u);
    EXPECT_EQ(next(from_s(20)), Lines{});
    EXPECT_EQ(next(from_s(20) + from_ms(200)), Lines{0});
}

TEST_F(Destaging, pauses_for_a_volume_after_many_failures_in_a_row) {
    write_lines(40);
    for (uint64_t i = 0; i < 16; ++i) EXPECT_EQ(fail_next(from_s(10)), i * 10);
    EXPECT_EQ(next(from_s(10)), Lines{}) << "every line may fail";
    EXPECT_EQ(fail_next(from_s(11)), 0u) << "again";
    EXPECT_EQ(take_next(from_s(11)), 160u) << "not every line fails";
    for (uint64_t i = 17; i < 40; ++i) EXPECT_EQ(take_next(from_s(11)), i * 10);
}

TEST_F(Destaging, is_not_held_up_by_lines_adjacent_to_a_silent_line) {
    write_lines(6);
    silent_end = 40;
    planner.unanswered(from_s(10));
    EXPECT_EQ(take_next(from_s(10)), 40u);
    EXPECT_EQ(take_next(from_s(10)), 50u);
    EXPECT_EQ(next(from_s(60)), Lines{}) << "the line is still silent";
    EXPECT_FALSE(bench.index.dirty(0).flushed(bench.index.flush_mark()));
    silent_end = 0;
    for (uint64_t line : {0u, 10u, 20u, 30u}) EXPECT_EQ(take_next(from_s(60)), line);
    EXPECT_TRUE(bench.index.dirty(0).flushed(bench.index.flush_mark()));
}

TEST_F(Destaging, holds_a_flush_for_lines_that_failed_before_it_and_for_no_later_ones) {
    write_lines(2);
    const uint64_t mark = bench.index.flush_mark();
    EXPECT_EQ(fail_next(from_s(10)), 0u);
    EXPECT_EQ(take_next(from_s(10)), 10u);
    EXPECT_FALSE(bench.index.dirty(0).flushed(mark));
    ASSERT_TRUE(bench.write({0, 70}, sub_block(0), from_s(0)));
    ASSERT_TRUE(bench.write({0, 90}, sub_block(0), from_s(0)));
    bench.destage({0, 70}, Index::Destaged::kFailed);
    bench.destage({0, 0});
    EXPECT_TRUE(bench.index.dirty(0).flushed(mark)) << "70 is deferred and was written later";
    EXPECT_FALSE(bench.index.dirty(0).flushed(bench.index.flush_mark()));
    EXPECT_TRUE(bench.index.consistent());
}

constexpr uint64_t kVolume = 1 << 30;

TEST(CacheReadAhead, gives_a_sequential_reader_a_growing_window) {
    ReadAhead ahead{ReadAheadOptions{}};
    constexpr uint64_t kRead = 64 * 1024;
    uint64_t brought = 0, stretches = 0, largest = 0;
    for (uint64_t at = 0; at < kVolume / 16; at += kRead) {
        Stretch wanted = ahead.read({at, kRead}, kVolume);
        if (wanted.length == 0) continue;
        if (brought != 0) {
            EXPECT_EQ(wanted.offset, brought) << "no gap and no overlap";
        }
        EXPECT_GE(wanted.offset, at + kRead);
        brought = wanted.offset + wanted.length;
        largest = std::max(largest, wanted.length);
        ++stretches;
    }
    EXPECT_GE(brought, kVolume / 16);
    EXPECT_GE(largest, 1u << 20);
    EXPECT_LT(stretches, 100u);
}

TEST(CacheReadAhead, loads_nothing_for_random_reads) {
    ReadAhead ahead{ReadAheadOptions{}};
    Random random(5);
    uint64_t brought = 0;
    for (int i = 0; i < 10000; ++i)
        brought += ahead.read({random.below(kVolume / 4096) * 4096, 4096}, kVolume).length;
    EXPECT_LT(brought, 10u << 20);
}

TEST(CacheReadAhead, follows_several_readers_at_once_and_none_beyond_the_end) {
    ReadAhead ahead{ReadAheadOptions{}};
    std::array<uint64_t, 4> brought{};
    for (uint64_t at = 0; at < 16 << 20; at += 65536)
        for (uint64_t reader = 0; reader < 4; ++reader) {
            Stretch wanted = ahead.read({reader * (16 << 20) + at, 65536}, uint64_t{64} << 20);
            brought[reader] += wanted.length;
            EXPECT_LE(wanted.offset + wanted.length, uint64_t{64} << 20);
        }
    for (uint64_t bytes : brought) EXPECT_GT(bytes, 12u << 20);
}

TEST(CacheReadAhead, follows_a_sequential_reader_among_scattered_reads) {
    ReadAhead ahead{ReadAheadOptions{}};
    Random random(6);
    uint64_t brought = 0;
    for (uint64_t at = 0; at < 16 << 20; at += 65536) {
        brought += ahead.read({at, 65536}, kVolume).length;
        const int others = at == 0 ? 7 : 30;  // a detected stream tolerates more reads in between
        for (int i = 0; i < others; ++i)
            ahead.read({kVolume / 2 + random.below(kVolume / 8192) * 4096, 4096}, kVolume);
    }
    EXPECT_GT(brought, 12u << 20);
}

TEST(CacheReadAhead, forgets_a_reader_after_many_other_reads) {
    for (const bool patient : {true, false}) {
        ReadAhead ahead{ReadAheadOptions{}};
        ahead.read({0, 65536}, kVolume);
        EXPECT_GT(ahead.read({65536, 65536}, kVolume).length, 0u);
        for (uint64_t i = 0; i < (patient ? 60u : 70u); ++i)
            EXPECT_EQ(ahead.read({kVolume / 2 + i * (1 << 20), 4096}, kVolume).length, 0u);
        // A read near the expected offset belongs to the stream, if the stream is still remembered.
        const uint64_t more = ahead.read({2 * 65536 + 4096, 65536}, kVolume).length;
        EXPECT_EQ(more > 0, patient);
    }
}

TEST(CacheReadAhead, is_off_if_its_first_window_is_zero) {
    ReadAhead ahead{ReadAheadOptions{.window_first = 0}};
    for (uint64_t at = 0; at < 1 << 24; at += 65536) EXPECT_EQ(ahead.read({at, 65536}, kVolume).length, 0u);
}

}  // namespace
}  // namespace wss::cache::testing
