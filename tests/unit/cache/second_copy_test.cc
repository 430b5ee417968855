// SPDX-License-Identifier: Apache-2.0
// Dirty lines with one copy left, and the second copy that is made of them.
#include <gtest/gtest.h>

#include "tests/unit/cache/bench.h"

namespace wss::cache::testing {
namespace {

constexpr LineKey kKey{1, 42};

// A dirty line that has lost its second copy; there are three engines.
class SecondCopy : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(bench_.write(kKey, piece(3)));
        bench_.index.lose_engine(line().holders()[1].engine);
        ASSERT_EQ(line().holders().size(), 1u);
        ASSERT_EQ(bench_.index.counters().single_lines, 1u);
        op_.pieces = kAll;
        op_.access = Access::kShared;
    }
    void begin() {
        ASSERT_TRUE(bench_.index.enter(line(), op_));
        ASSERT_EQ(bench_.index.begin_copy(line()), Placed::kDone);
        ASSERT_EQ(line().holders().size(), 2u);
        second_ = line().holders()[1];
    }
    void end(bool made) {
        bench_.index.end_copy(line(), second_, made);
        leave();
    }
    void leave() {
        Granted granted;
        bench_.index.leave(op_, granted);
        EXPECT_TRUE(bench_.index.consistent());
    }
    Line& line() { return *bench_.index.find(kKey); }

    Bench bench_{3, 8};
    LineOp op_;
    Slot second_;
};

TEST_F(SecondCopy, is_not_missed_any_more_once_it_is_made) {
    EXPECT_EQ(bench_.index.dirty(kKey.volume).single(), 1u);
    begin();
    EXPECT_EQ(line().copies().size(), 1u);
    EXPECT_TRUE(line().single()) << "it has nothing yet";
    end(true);
    EXPECT_EQ(line().copies().size(), 2u);
    EXPECT_EQ(bench_.index.dirty(kKey.volume).single(), 0u);
    EXPECT_EQ(bench_.index.lose_engine(line().holders()[0].engine).dirty_lines, 0u);
    EXPECT_EQ(line().dirty(), piece(3));
    EXPECT_EQ(bench_.index.dirty(kKey.volume).single(), 1u) << "one is left again";
    EXPECT_TRUE(bench_.index.consistent());
}

TEST_F(SecondCopy, that_has_nothing_yet_does_not_stand_in_for_the_first) {
    begin();
    const Slot second = line().holders()[1];
    const Loss loss = bench_.index.lose_engine(line().holders()[0].engine);
    ASSERT_EQ(loss.lost.size(), 1u);
    EXPECT_EQ(loss.lost[0].pieces, piece(3));
    EXPECT_TRUE(line().dirty().empty());
    EXPECT_TRUE(line().valid().empty());
    ASSERT_EQ(line().holders().size(), 1u);
    EXPECT_EQ(line().holders()[0], second) << "who copies may still write there: nobody else gets it";
    EXPECT_EQ(bench_.index.counters().single_lines, 0u);
    end(true);
    EXPECT_TRUE(line().dirty().empty());
}

TEST_F(SecondCopy, lost_before_it_was_made_costs_nothing) {
    begin();
    const Loss loss = bench_.index.lose_engine(line().holders()[1].engine);
    EXPECT_EQ(loss.dirty_lines + loss.second_copies, 0u);
    end(true);
    EXPECT_EQ(line().copies().size(), 1u);
    EXPECT_EQ(line().dirty(), piece(3));
    EXPECT_EQ(bench_.index.dirty(kKey.volume).single(), 1u);
}

TEST_F(SecondCopy, that_was_lost_does_not_end_the_next_one) {
    begin();
    const Slot former = second_;
    bench_.index.lose_engine(former.engine);
    bench_.add_engine(3, 8);
    ASSERT_EQ(bench_.index.begin_copy(line()), Placed::kDone);
    second_ = line().holders()[1];
    bench_.index.end_copy(line(), former, false);
    EXPECT_TRUE(line().copying()) << "somebody else makes it";
    end(true);
    EXPECT_EQ(line().copies().size(), 2u);
}

TEST_F(SecondCopy, not_made_leaves_its_slot_free) {
    begin();
    const EngineIndex second = line().holders()[1].engine;
    EXPECT_EQ(bench_.index.used_slots(second), 1u);
    end(false);
    EXPECT_EQ(bench_.index.used_slots(second), 0u);
    EXPECT_EQ(bench_.index.dirty(kKey.volume).single(), 1u);
}

TEST_F(SecondCopy, of_a_line_that_came_home_meanwhile_is_given_up) {
    begin();
    LineOp destage;
    destage.pieces = line().dirty();
    destage.access = Access::kShared;
    ASSERT_TRUE(bench_.index.enter(line(), destage));
    const Index::Destage what = bench_.index.begin_destage(line());
    EXPECT_FALSE(line().clearing());
    bench_.index.begin_clear(line(), what);
    EXPECT_TRUE(line().clearing()) << "who made it now would not be asked to clear it";
    bench_.index.end_destage(line(), what, Index::Destaged::kStable);
    EXPECT_FALSE(line().clearing());
    EXPECT_EQ(bench_.index.counters().single_lines, 0u);
    Granted granted;
    bench_.index.leave(destage, granted);
    EXPECT_EQ(line().holders().size(), 2u) << "who copies may still write there";
    end(false);
    EXPECT_EQ(line().holders().size(), 1u);
}

TEST_F(SecondCopy, is_missed_no_more_when_the_line_is_clean) {
    bench_.index.mark_single(line());
    EXPECT_EQ(bench_.index.counters().single_lines, 1u) << "said twice";
    bench_.destage(kKey, Index::Destaged::kStable);
    EXPECT_EQ(bench_.index.counters().single_lines, 0u);
    bench_.index.mark_single(line());
    EXPECT_EQ(bench_.index.counters().single_lines, 0u) << "nothing of it is dirty";
    EXPECT_TRUE(bench_.index.consistent());
}

}  // namespace
}  // namespace wss::cache::testing
