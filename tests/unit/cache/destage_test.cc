// SPDX-License-Identifier: Apache-2.0
// When dirty lines are brought home, and which together; and what readers are given before they ask.
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

struct Planned : ::testing::Test {
    std::vector<uint64_t> next(Nanoseconds now, uint32_t volume = 0) {
        std::array<Line*, kDestageRunMax> run;
        size_t count = planner.next(bench.index, volume, now, run,
                                    [this](const Line& line) { return asked_for == line.key().line; });
        return lines_of(std::span(run).first(count));
    }
    Bench bench{2, 100};
    DestagePlanner planner{DestageOptions{}};
    uint64_t asked_for = UINT64_MAX;
};
using Lines = std::vector<uint64_t>;

TEST_F(Planned, a_dirty_line_is_brought_home_when_it_is_old_enough) {
    ASSERT_TRUE(bench.write({0, 7}, piece(0), from_s(10)));
    EXPECT_EQ(next(from_s(14)), Lines{});
    EXPECT_EQ(next(from_s(15)), Lines{7});
}

TEST_F(Planned, neighbours_go_along_in_ascending_order) {
    for (uint64_t line : {12, 10, 11, 13, 15, 9}) ASSERT_TRUE(bench.write({0, line}, piece(0), from_s(9)));
    ASSERT_TRUE(bench.write({1, 14}, piece(0), from_s(1)));
    EXPECT_EQ(next(from_s(14)), (Lines{9, 10, 11, 12, 13})) << "not 14, which is another volume's, nor 15";
}

TEST_F(Planned, a_neighbour_in_use_is_left_alone) {
    for (uint64_t line : {1, 2, 3}) ASSERT_TRUE(bench.write({0, line}, piece(0), from_s(1)));
    LineOp read;
    read.pieces = piece(0);
    bench.index.enter(*bench.index.find({0, 2}), read);
    EXPECT_EQ(next(from_s(10)), Lines{1});
    Granted granted;
    bench.index.leave(read, granted);
}

TEST_F(Planned, a_line_that_is_waited_for_does_not_hold_up_the_others) {
    for (uint64_t line : {7, 20, 21}) ASSERT_TRUE(bench.write({0, line}, piece(0), from_s(1)));
    asked_for = 7;
    EXPECT_EQ(next(from_s(10)), (Lines{20, 21}));
}

TEST_F(Planned, a_run_is_as_long_as_one_transfer_at_most) {
    for (uint64_t line = 0; line < 40; ++line) ASSERT_TRUE(bench.write({0, line}, piece(0), from_s(1)));
    EXPECT_EQ(next(from_s(10)).size(), 16u) << "1 MiB of 64 KiB lines";
}

TEST_F(Planned, too_many_dirty_lines_go_until_few_are_left) {
    // 200 slots: 40 % are 80 lines.
    uint64_t line = 0;
    for (; line <= 80; ++line) ASSERT_TRUE(bench.write({0, line * 2}, piece(0), from_s(1)));
    uint64_t gone = 0;
    while (!next(from_s(2)).empty()) {
        bench.destage({0, next(from_s(2)).front()});
        ASSERT_LE(++gone, 81u);
    }
    EXPECT_EQ(bench.index.dirty_lines(0), 50u) << "25 %";
    EXPECT_TRUE(bench.write({0, 1001}, piece(0), from_s(2)));
    EXPECT_EQ(next(from_s(2)), Lines{}) << "not again before the high mark";
}

TEST_F(Planned, a_flush_makes_what_it_waits_for_due_at_once) {
    ASSERT_TRUE(bench.write({0, 5}, piece(0), from_s(1)));
    planner.want(bench.index.flush_mark());
    ASSERT_TRUE(bench.write({0, 50}, piece(0), from_s(1)));
    EXPECT_EQ(next(from_s(1)), Lines{5});
    bench.destage({0, 5});
    EXPECT_EQ(next(from_s(1)), Lines{}) << "written after the flush";
}

TEST_F(Planned, failing_storage_is_asked_again_less_and_less_often) {
    ASSERT_TRUE(bench.write({0, 5}, piece(0), from_s(0)));
    planner.failed(from_s(10));
    EXPECT_EQ(next(from_s(10)), Lines{});
    EXPECT_EQ(next(from_s(10) + from_ms(99)), Lines{});
    EXPECT_EQ(next(from_s(10) + from_ms(100)), Lines{5});
    planner.failed(from_s(11));
    EXPECT_EQ(next(from_s(11) + from_ms(199)), Lines{});
    EXPECT_EQ(next(from_s(11) + from_ms(200)), Lines{5});
    for (int i = 0; i < 20; ++i) planner.failed(from_s(12));
    EXPECT_EQ(next(from_s(22) - from_ms(1)), Lines{});
    EXPECT_EQ(next(from_s(22)), Lines{5});
    planner.succeeded();
    EXPECT_EQ(next(from_s(12)), Lines{5});
}

constexpr uint64_t kVolume = 1 << 30;

TEST(CacheReadAhead, a_sequential_reader_is_ahead_of_itself_by_a_growing_window) {
    ReadAhead ahead{ReadAheadOptions{}};
    constexpr uint64_t kRead = 64 * 1024;
    uint64_t brought = 0, stretches = 0, largest = 0;
    for (uint64_t at = 0; at < kVolume / 16; at += kRead) {
        Stretch wanted = ahead.read({at, kRead}, kVolume);
        if (wanted.length == 0) continue;
        if (brought != 0) {
            EXPECT_EQ(wanted.offset, brought) << "no gap, nothing twice";
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

TEST(CacheReadAhead, random_reads_bring_nothing) {
    ReadAhead ahead{ReadAheadOptions{}};
    Random random(5);
    uint64_t brought = 0;
    for (int i = 0; i < 10000; ++i)
        brought += ahead.read({random.below(kVolume / 4096) * 4096, 4096}, kVolume).length;
    EXPECT_LT(brought, 10u << 20);
}

TEST(CacheReadAhead, several_readers_are_followed_at_once_and_none_beyond_the_end) {
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

TEST(CacheReadAhead, a_sequential_reader_is_followed_among_scattered_reads) {
    ReadAhead ahead{ReadAheadOptions{}};
    Random random(6);
    uint64_t brought = 0;
    for (uint64_t at = 0; at < 16 << 20; at += 65536) {
        brought += ahead.read({at, 65536}, kVolume).length;
        const int others = at == 0 ? 7 : 30;  // once it is found it may be passed by for longer
        for (int i = 0; i < others; ++i)
            ahead.read({kVolume / 2 + random.below(kVolume / 8192) * 4096, 4096}, kVolume);
    }
    EXPECT_GT(brought, 12u << 20);
}

TEST(CacheReadAhead, a_reader_that_many_reads_have_passed_by_is_forgotten) {
    for (const bool patient : {true, false}) {
        ReadAhead ahead{ReadAheadOptions{}};
        ahead.read({0, 65536}, kVolume);
        EXPECT_GT(ahead.read({65536, 65536}, kVolume).length, 0u);
        for (uint64_t i = 0; i < (patient ? 60u : 70u); ++i)
            EXPECT_EQ(ahead.read({kVolume / 2 + i * (1 << 20), 4096}, kVolume).length, 0u);
        // Near where it was expected: belongs to it, if it is remembered.
        const uint64_t more = ahead.read({2 * 65536 + 4096, 65536}, kVolume).length;
        EXPECT_EQ(more > 0, patient);
    }
}

TEST(CacheReadAhead, is_off_when_its_first_window_is_none) {
    ReadAhead ahead{ReadAheadOptions{.window_first = 0}};
    for (uint64_t at = 0; at < 1 << 24; at += 65536) EXPECT_EQ(ahead.read({at, 65536}, kVolume).length, 0u);
}

}  // namespace
}  // namespace wss::cache::testing
