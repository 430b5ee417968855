// SPDX-License-Identifier: Apache-2.0
// Lost sub-blocks, and those that a returned copy can restore.
#include "lib/cache/lost.h"

#include <gtest/gtest.h>

#include "tests/unit/cache/bench.h"

namespace wss::cache::testing {
namespace {

constexpr uint64_t kVolume = 0xabc, kOther = 0xabd;

TEST(LostSubBlocks, remain_lost_until_each_is_known_again) {
    LostSubBlocks lost;
    EXPECT_TRUE(lost.empty());
    lost.add({kVolume, 7, 20}, sub_block(1) | sub_block(2));
    EXPECT_EQ(lost.of(kVolume, 7), sub_block(1) | sub_block(2));
    EXPECT_TRUE(lost.of(kVolume, 6).empty() && lost.of(kVolume, 8).empty() && lost.of(kOther, 7).empty());
    EXPECT_FALSE(lost.found(kVolume, 7, sub_block(3)));
    EXPECT_TRUE(lost.found(kVolume, 7, sub_block(2) | sub_block(3)));
    EXPECT_EQ(lost.of(kVolume, 7), sub_block(1));
    EXPECT_EQ(lost.sub_blocks_of(kVolume), 1u);
    EXPECT_TRUE(lost.found(kVolume, 7, sub_block(1)));
    EXPECT_TRUE(lost.empty());
}

TEST(LostSubBlocks, are_restored_only_from_copies_that_missed_nothing) {
    LostSubBlocks lost;
    lost.add({kVolume, 7, 20}, sub_block(1));
    lost.add({kVolume, 7, 30}, sub_block(2));  // written, and lost again
    EXPECT_TRUE(lost.in_copy({kVolume, 7, 19}, kAll).empty()) << "the copy is older";
    EXPECT_EQ(lost.in_copy({kVolume, 7, 20}, kAll), sub_block(1));
    EXPECT_EQ(lost.in_copy({kVolume, 7, 29}, kAll), sub_block(1));
    EXPECT_EQ(lost.in_copy({kVolume, 7, 31}, kAll), sub_block(1) | sub_block(2))
        << "a write may have been in flight";
    EXPECT_EQ(lost.in_copy({kVolume, 7, 31}, sub_block(2) | sub_block(5)), sub_block(2))
        << "clean sub-blocks are old";
    EXPECT_TRUE(lost.in_copy({kVolume, 8, 31}, kAll).empty());
    EXPECT_TRUE(lost.in_copy({kOther, 7, 31}, kAll).empty());
}

TEST(LostSubBlocks, of_one_volume_can_be_given_up_alone) {
    LostSubBlocks lost;
    lost.add({kVolume, 7, 20}, kAll);
    lost.add({kVolume, UINT64_MAX, UINT64_MAX}, kAll);
    lost.add({kOther, 0, 1}, sub_block(0));
    EXPECT_TRUE(lost.any_of(kVolume) && lost.any_of(kOther));
    EXPECT_TRUE(lost.forget(kVolume));
    EXPECT_FALSE(lost.forget(kVolume));
    EXPECT_FALSE(lost.any_of(kVolume));
    EXPECT_EQ(lost.of(kOther, 0), sub_block(0));
}

TEST(LostSubBlocks, are_restored_one_by_one_whatever_their_number) {
    constexpr uint64_t kMany = (1u << 17) + 1;
    LostSubBlocks lost;
    for (uint64_t line = 0; line < kMany; ++line) lost.add({kVolume, line, 20 + line}, sub_block(line % 16));
    EXPECT_FALSE(lost.is_whole(kVolume));
    EXPECT_EQ(lost.sub_blocks_of(kVolume), kMany);
    for (uint64_t line = 0; line < kMany; ++line)
        ASSERT_TRUE(lost.found(kVolume, line, lost.in_copy({kVolume, line, 20 + line}, kAll))) << line;
    EXPECT_TRUE(lost.empty());
}

TEST(LostSubBlocks, of_lines_lost_before_their_whole_volume_are_restored) {
    LostSubBlocks lost;
    lost.add({kVolume, 1, 20}, sub_block(0));
    lost.add_whole(kVolume);
    EXPECT_EQ(lost.in_copy({kVolume, 1, 20}, kAll), sub_block(0));
    EXPECT_TRUE(lost.found(kVolume, 1, sub_block(0)));
    EXPECT_TRUE(lost.is_whole(kVolume)) << "only the operator ends that";
    EXPECT_TRUE(lost.forget(kVolume));
    EXPECT_TRUE(lost.empty());
}

TEST(LostSubBlocks, beyond_the_end_of_a_shrunk_volume_no_longer_count) {
    LostSubBlocks lost;
    lost.add({kVolume, 1, 20}, sub_block(0));
    lost.add({kVolume, 2, 20}, kAll);
    lost.add({kVolume, 3, 20}, kAll);
    lost.add({kOther, 3, 20}, sub_block(0));
    EXPECT_TRUE(lost.cut(kVolume, 2, kSubBlockBytes));
    EXPECT_EQ(lost.of(kVolume, 1), sub_block(0));
    EXPECT_EQ(lost.of(kVolume, 2), sub_block(0));
    EXPECT_TRUE(lost.of(kVolume, 3).empty());
    EXPECT_FALSE(lost.cut(kVolume, 2, kSubBlockBytes));
    EXPECT_TRUE(lost.cut(kVolume, 2, 0));
    EXPECT_TRUE(lost.of(kVolume, 2).empty());
    EXPECT_EQ(lost.of(kOther, 3), sub_block(0));
}

TEST(LostSubBlocks, are_not_restored_beyond_an_end_that_the_volume_had) {
    LostSubBlocks lost;
    constexpr uint32_t kEnd = kSubBlockBytes + 512;
    lost.add({kVolume, 2, 20}, kAll);
    lost.add({kVolume, 3, 20}, kAll, {}, {.end = kEnd});
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kNoEnd);
    EXPECT_EQ(lost.end_of(kVolume, 3, kAll), kEnd);
    EXPECT_TRUE(lost.cut(kVolume, 2, kEnd));
    EXPECT_EQ(lost.of(kVolume, 2), sub_block(0) | sub_block(1));
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kEnd);
    EXPECT_EQ(lost.end_of(kVolume, 2, sub_block(0)), kNoEnd);
    EXPECT_FALSE(lost.cut(kVolume, 2, kEnd + 512)) << "the smallest counts";
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kEnd);
    EXPECT_TRUE(lost.cut(kVolume, 2, kEnd - 256)) << "nothing else is lost there, but the end must be saved";
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kEnd - 256);
    EXPECT_TRUE(lost.found(kVolume, 2, sub_block(1)));
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kNoEnd);
}

TEST(LostSubBlocks, are_not_restored_from_a_copy_that_a_recovery_passed_over) {
    LostSubBlocks lost;
    lost.add({kVolume, 7, 20}, sub_block(1), {}, {.passed_over = 40});
    EXPECT_TRUE(lost.in_copy({kVolume, 7, 19}, kAll).empty());
    EXPECT_EQ(lost.in_copy({kVolume, 7, 20}, kAll), sub_block(1)) << "the restored copy";
    EXPECT_TRUE(lost.in_copy({kVolume, 7, 21}, kAll).empty());
    EXPECT_TRUE(lost.in_copy({kVolume, 7, 40}, kAll).empty());
    EXPECT_EQ(lost.in_copy({kVolume, 7, 41}, kAll), sub_block(1))
        << "a write was in flight after the recovery";
}

TEST(LostSubBlocks, that_are_lost_again_keep_the_stricter_bounds) {
    LostSubBlocks lost;
    constexpr uint32_t kEnd = kSubBlockBytes + 512;
    lost.add({kVolume, 2, 20}, sub_block(0));
    lost.add({kVolume, 2, 20}, sub_block(1), {}, {.passed_over = 30, .end = kEnd});
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kEnd);
    EXPECT_TRUE(lost.in_copy({kVolume, 2, 30}, kAll).empty());
    lost.add({kVolume, 2, 20}, sub_block(2));
    EXPECT_EQ(lost.end_of(kVolume, 2, kAll), kEnd);
    EXPECT_TRUE(lost.in_copy({kVolume, 2, 30}, kAll).empty());
}

TEST(LostSubBlocks, keep_the_time_of_the_loss_of_each_line) {
    LostSubBlocks lost;
    EXPECT_EQ(lost.since(kVolume), kNever);
    lost.add({kVolume, 1, 20}, sub_block(0), from_s(10));
    lost.add({kVolume, 2, 20}, sub_block(1) | sub_block(2), from_s(20));
    lost.add({kVolume, 2, 30}, sub_block(0), from_s(30));
    lost.add({kVolume, 3, 20}, kAll, from_s(20));
    EXPECT_EQ(lost.since(kVolume), from_s(10));
    EXPECT_EQ(lost.since(kVolume, 2, sub_block(0)), from_s(30));
    EXPECT_EQ(lost.since(kVolume, 2, kAll), from_s(20));
    EXPECT_EQ(lost.since(kVolume, 2, sub_block(3)), kNever);
    EXPECT_TRUE(lost.any_since(kVolume, from_s(19), from_s(20)));
    EXPECT_FALSE(lost.any_since(kVolume, from_s(20), from_s(29)));
    EXPECT_FALSE(lost.any_since(kOther, from_s(0), from_s(40)));
    const uint64_t before = lost.known_again();
    EXPECT_TRUE(lost.found(kVolume, 1, sub_block(0)));
    EXPECT_NE(lost.known_again(), before);
    EXPECT_EQ(lost.since(kVolume), from_s(20));
    EXPECT_TRUE(lost.cut(kVolume, 2, kSubBlockBytes));
    EXPECT_EQ(lost.since(kVolume), from_s(30));
    EXPECT_TRUE(lost.forget(kVolume));
    EXPECT_EQ(lost.since(kVolume), kNever);
}

}  // namespace
}  // namespace wss::cache::testing
