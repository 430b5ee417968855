// SPDX-License-Identifier: Apache-2.0
// Lost sub-blocks, and those that a returned copy can restore.
#include "lib/cache/lost.h"

#include <gtest/gtest.h>

#include "tests/unit/cache/bench.h"

namespace wss::cache::testing {
namespace {

constexpr uint64_t kVolume = 0xabc, kOther = 0xabd;

TEST(LostPieces, are_lost_until_each_is_known_again) {
    LostPieces lost;
    EXPECT_TRUE(lost.empty());
    lost.add({kVolume, 7, 20}, piece(1) | piece(2));
    EXPECT_EQ(lost.of(kVolume, 7), piece(1) | piece(2));
    EXPECT_TRUE(lost.of(kVolume, 6).empty() && lost.of(kVolume, 8).empty() && lost.of(kOther, 7).empty());
    EXPECT_FALSE(lost.found(kVolume, 7, piece(3)));
    EXPECT_TRUE(lost.found(kVolume, 7, piece(2) | piece(3)));
    EXPECT_EQ(lost.of(kVolume, 7), piece(1));
    EXPECT_EQ(lost.pieces_of(kVolume), 1u);
    EXPECT_TRUE(lost.found(kVolume, 7, piece(1)));
    EXPECT_TRUE(lost.empty());
}

TEST(LostPieces, come_back_only_from_copies_that_missed_nothing) {
    LostPieces lost;
    lost.add({kVolume, 7, 20}, piece(1));
    lost.add({kVolume, 7, 30}, piece(2));  // written, and lost again
    EXPECT_TRUE(lost.in_copy({kVolume, 7, 19}, kAll).empty()) << "it is older";
    EXPECT_EQ(lost.in_copy({kVolume, 7, 20}, kAll), piece(1));
    EXPECT_EQ(lost.in_copy({kVolume, 7, 29}, kAll), piece(1));
    EXPECT_EQ(lost.in_copy({kVolume, 7, 31}, kAll), piece(1) | piece(2)) << "a write may have been under way";
    EXPECT_EQ(lost.in_copy({kVolume, 7, 31}, piece(2) | piece(5)), piece(2)) << "clean pieces are old";
    EXPECT_TRUE(lost.in_copy({kVolume, 8, 31}, kAll).empty());
    EXPECT_TRUE(lost.in_copy({kOther, 7, 31}, kAll).empty());
}

TEST(LostPieces, of_one_volume_are_given_up_alone) {
    LostPieces lost;
    lost.add({kVolume, 7, 20}, kAll);
    lost.add({kVolume, UINT64_MAX, UINT64_MAX}, kAll);
    lost.add({kOther, 0, 1}, piece(0));
    EXPECT_TRUE(lost.any_of(kVolume) && lost.any_of(kOther));
    EXPECT_TRUE(lost.forget(kVolume));
    EXPECT_FALSE(lost.forget(kVolume));
    EXPECT_FALSE(lost.any_of(kVolume));
    EXPECT_EQ(lost.of(kOther, 0), piece(0));
}

TEST(LostPieces, of_any_number_each_can_be_given_back) {
    constexpr uint64_t kMany = (1u << 17) + 1;
    LostPieces lost;
    for (uint64_t line = 0; line < kMany; ++line) lost.add({kVolume, line, 20 + line}, piece(line % 16));
    EXPECT_FALSE(lost.is_whole(kVolume));
    EXPECT_EQ(lost.pieces_of(kVolume), kMany);
    for (uint64_t line = 0; line < kMany; ++line)
        ASSERT_TRUE(lost.found(kVolume, line, lost.in_copy({kVolume, line, 20 + line}, kAll))) << line;
    EXPECT_TRUE(lost.empty());
}

TEST(LostPieces, lines_that_were_lost_before_their_whole_volume_can_be_given_back) {
    LostPieces lost;
    lost.add({kVolume, 1, 20}, piece(0));
    lost.add_whole(kVolume);
    EXPECT_EQ(lost.in_copy({kVolume, 1, 20}, kAll), piece(0));
    EXPECT_TRUE(lost.found(kVolume, 1, piece(0)));
    EXPECT_TRUE(lost.is_whole(kVolume)) << "only the operator ends that";
    EXPECT_TRUE(lost.forget(kVolume));
    EXPECT_TRUE(lost.empty());
}

TEST(LostPieces, beyond_the_end_of_a_volume_that_shrinks_nothing_is_lost) {
    LostPieces lost;
    lost.add({kVolume, 1, 20}, piece(0));
    lost.add({kVolume, 2, 20}, kAll);
    lost.add({kVolume, 3, 20}, kAll);
    lost.add({kOther, 3, 20}, piece(0));
    EXPECT_TRUE(lost.cut(kVolume, 2, kPieceBytes));
    EXPECT_EQ(lost.of(kVolume, 1), piece(0));
    EXPECT_EQ(lost.of(kVolume, 2), piece(0));
    EXPECT_TRUE(lost.of(kVolume, 3).empty());
    EXPECT_FALSE(lost.cut(kVolume, 2, kPieceBytes));
    EXPECT_TRUE(lost.cut(kVolume, 2, 0));
    EXPECT_TRUE(lost.of(kVolume, 2).empty());
    EXPECT_EQ(lost.of(kOther, 3), piece(0));
}

TEST(LostPieces, a_copy_gives_nothing_back_beyond_an_end_that_the_volume_had) {
    LostPieces lost;
    constexpr uint32_t kEnd = kPieceBytes + 512;
    lost.add({kVolume, 2, 20}, kAll);
    lost.add({kVolume, 3, 20}, kAll, {}, {.end = kEnd});
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kNoEnd);
    EXPECT_EQ(lost.end_of(kVolume, 3, kAll), kEnd);
    EXPECT_TRUE(lost.cut(kVolume, 2, kEnd));
    EXPECT_EQ(lost.of(kVolume, 2), piece(0) | piece(1));
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kEnd);
    EXPECT_EQ(lost.end_of(kVolume, 2, piece(0)), kNoEnd);
    EXPECT_FALSE(lost.cut(kVolume, 2, kEnd + 512)) << "the smallest counts";
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kEnd);
    EXPECT_TRUE(lost.cut(kVolume, 2, kEnd - 256)) << "nothing else of it is lost, and this is to be saved";
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kEnd - 256);
    EXPECT_TRUE(lost.found(kVolume, 2, piece(1)));
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kNoEnd);
}

TEST(LostPieces, a_copy_that_a_recovery_passed_over_gives_nothing_back) {
    LostPieces lost;
    lost.add({kVolume, 7, 20}, piece(1), {}, {.passed_over = 40});
    EXPECT_TRUE(lost.in_copy({kVolume, 7, 19}, kAll).empty());
    EXPECT_EQ(lost.in_copy({kVolume, 7, 20}, kAll), piece(1)) << "it is what was restored";
    EXPECT_TRUE(lost.in_copy({kVolume, 7, 21}, kAll).empty());
    EXPECT_TRUE(lost.in_copy({kVolume, 7, 40}, kAll).empty());
    EXPECT_EQ(lost.in_copy({kVolume, 7, 41}, kAll), piece(1)) << "a write since the recovery was under way";
}

TEST(LostPieces, a_line_that_is_lost_again_keeps_the_stricter_bounds) {
    LostPieces lost;
    constexpr uint32_t kEnd = kPieceBytes + 512;
    lost.add({kVolume, 2, 20}, piece(0));
    lost.add({kVolume, 2, 20}, piece(1), {}, {.passed_over = 30, .end = kEnd});
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kEnd);
    EXPECT_TRUE(lost.in_copy({kVolume, 2, 30}, kAll).empty());
    lost.add({kVolume, 2, 20}, piece(2));
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kEnd);
    EXPECT_TRUE(lost.in_copy({kVolume, 2, 30}, kAll).empty());
}

TEST(LostPieces, each_line_keeps_the_time_of_its_loss) {
    LostPieces lost;
    EXPECT_EQ(lost.since(kVolume), kNever);
    lost.add({kVolume, 1, 20}, piece(0), from_s(10));
    lost.add({kVolume, 2, 20}, piece(1) | piece(2), from_s(20));
    lost.add({kVolume, 2, 30}, piece(0), from_s(30));
    lost.add({kVolume, 3, 20}, kAll, from_s(20));
    EXPECT_EQ(lost.since(kVolume), from_s(10));
    EXPECT_EQ(lost.since(kVolume, 2, piece(0)), from_s(30));
    EXPECT_EQ(lost.since(kVolume, 2, kAll), from_s(20));
    EXPECT_EQ(lost.since(kVolume, 2, piece(3)), kNever);
    EXPECT_TRUE(lost.any_since(kVolume, from_s(19), from_s(20)));
    EXPECT_FALSE(lost.any_since(kVolume, from_s(20), from_s(29)));
    EXPECT_FALSE(lost.any_since(kOther, from_s(0), from_s(40)));
    const uint64_t before = lost.known_again();
    EXPECT_TRUE(lost.found(kVolume, 1, piece(0)));
    EXPECT_NE(lost.known_again(), before);
    EXPECT_EQ(lost.since(kVolume), from_s(20));
    EXPECT_TRUE(lost.cut(kVolume, 2, kPieceBytes));
    EXPECT_EQ(lost.since(kVolume), from_s(30));
    EXPECT_TRUE(lost.forget(kVolume));
    EXPECT_EQ(lost.since(kVolume), kNever);
}

}  // namespace
}  // namespace wss::cache::testing
