// SPDX-License-Identifier: Apache-2.0
// Dirty lines with one remaining copy, and the creation of their second copy.
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/cache/bench.h"

namespace wss::cache::testing {
namespace {

constexpr LineKey kKey{1, 42};

// A dirty line that has lost its second copy, with three engines.
class SecondCopy : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(bench_.write(kKey, sub_block(3)));
        bench_.index.lose_engine(line().holders()[1].engine);
        ASSERT_EQ(line().holders().size(), 1u);
        ASSERT_EQ(bench_.index.counters().single_lines, 1u);
    }
    void begin() {
        ASSERT_TRUE(bench_.index.enter_beside(line(), op_));
        ASSERT_EQ(bench_.index.begin_copy(line()), Placed::kDone);
        ASSERT_EQ(line().holders().size(), 2u);
        second_ = line().holders()[1];
    }
    void end(bool made) {
        bench_.index.end_copy(line(), second_, made);
        leave();
    }
    void leave() {
        bench_.index.leave(op_, granted_);
        EXPECT_TRUE(bench_.index.consistent());
    }
    bool enter(LineOp& op, Access access) {
        op.sub_blocks = kAll;
        op.access = access;
        return bench_.index.enter(line(), op);
    }
    void leave(LineOp& op) { bench_.index.leave(op, granted_); }
    Line& line() { return *bench_.index.find(kKey); }

    Bench bench_{3, 8};
    LineOp op_;
    Granted granted_;
    ArenaSlot second_;
};

TEST_F(SecondCopy, is_no_longer_missing_once_it_exists) {
    EXPECT_EQ(bench_.index.dirty(kKey.volume).single(), 1u);
    begin();
    EXPECT_EQ(line().copies().size(), 1u);
    EXPECT_TRUE(line().single()) << "the copy is still empty";
    end(true);
    EXPECT_EQ(line().copies().size(), 2u);
    EXPECT_EQ(bench_.index.dirty(kKey.volume).single(), 0u);
    EXPECT_EQ(bench_.index.lose_engine(line().holders()[0].engine).dirty_lines, 0u);
    EXPECT_EQ(line().dirty(), sub_block(3));
    EXPECT_EQ(bench_.index.dirty(kKey.volume).single(), 1u) << "one copy is left again";
    EXPECT_TRUE(bench_.index.consistent());
}

TEST_F(SecondCopy, that_is_still_empty_does_not_replace_the_first) {
    begin();
    const ArenaSlot second = line().holders()[1];
    const Loss loss = bench_.index.lose_engine(line().holders()[0].engine);
    ASSERT_EQ(loss.lost.size(), 1u);
    EXPECT_EQ(loss.lost[0].sub_blocks, sub_block(3));
    EXPECT_TRUE(line().dirty().empty());
    EXPECT_TRUE(line().valid().empty());
    ASSERT_EQ(line().holders().size(), 1u);
    EXPECT_EQ(line().holders()[0], second) << "the copying may still write there, so its slot is not reused";
    EXPECT_EQ(bench_.index.counters().single_lines, 0u);
    end(true);
    EXPECT_TRUE(line().dirty().empty());
}

TEST_F(SecondCopy, that_is_lost_before_it_is_complete_costs_no_data) {
    begin();
    const Loss loss = bench_.index.lose_engine(line().holders()[1].engine);
    EXPECT_EQ(loss.dirty_lines + loss.second_copies, 0u);
    end(true);
    EXPECT_EQ(line().copies().size(), 1u);
    EXPECT_EQ(line().dirty(), sub_block(3));
    EXPECT_EQ(bench_.index.dirty(kKey.volume).single(), 1u);
}

TEST_F(SecondCopy, that_was_lost_does_not_end_the_next_one) {
    begin();
    const ArenaSlot former = second_;
    bench_.index.lose_engine(former.engine);
    bench_.add_engine(3, 8);
    ASSERT_EQ(bench_.index.begin_copy(line()), Placed::kDone);
    second_ = line().holders()[1];
    bench_.index.end_copy(line(), former, false);
    EXPECT_TRUE(line().copying()) << "another operation creates it";
    end(true);
    EXPECT_EQ(line().copies().size(), 2u);
}

TEST_F(SecondCopy, that_is_not_created_leaves_its_slot_free) {
    begin();
    const EngineIndex second = line().holders()[1].engine;
    EXPECT_EQ(bench_.index.used_slots(second), 1u);
    end(false);
    EXPECT_EQ(bench_.index.used_slots(second), 0u);
    EXPECT_EQ(bench_.index.dirty(kKey.volume).single(), 1u);
}

TEST_F(SecondCopy, is_not_begun_while_copies_are_being_cleared) {
    LineOp destage;
    ASSERT_TRUE(enter(destage, Access::kShared));
    const Index::Destage what = bench_.index.begin_destage(line());
    bench_.index.begin_clear(line(), what);
    EXPECT_FALSE(bench_.index.enter_beside(line(), op_)) << "no operation would clear it";
    bench_.index.end_destage(line(), what, Index::Destaged::kStable);
    EXPECT_FALSE(line().clearing());
    EXPECT_EQ(bench_.index.counters().single_lines, 0u);
    leave(destage);
    EXPECT_EQ(line().holders().size(), 1u);
}

// L3
TEST_F(SecondCopy, is_completed_before_copies_are_cleared) {
    LineOp destage;
    ASSERT_TRUE(enter(destage, Access::kShared));
    const Index::Destage what = bench_.index.begin_destage(line());
    begin();
    EXPECT_FALSE(bench_.index.resume(destage));
    EXPECT_FALSE(destage.granted());
    end(true);
    EXPECT_EQ(granted_.pop_front(), &destage);
    ASSERT_TRUE(bench_.index.resume(destage));
    EXPECT_EQ(line().copies().size(), 2u) << "both are cleared";
    bench_.index.begin_clear(line(), what);
    bench_.index.end_destage(line(), what, Index::Destaged::kStable);
    leave(destage);
    EXPECT_TRUE(bench_.index.consistent());
}

TEST_F(SecondCopy, precedes_operations_that_wait_for_others) {
    LineOp read, write, late;
    ASSERT_TRUE(enter(read, Access::kShared));
    ASSERT_FALSE(enter(write, Access::kExclusive));
    begin();
    EXPECT_FALSE(enter(late, Access::kShared)) << "behind the write";
    leave(read);
    EXPECT_TRUE(granted_.empty()) << "the write waits for the copy";
    end(true);
    EXPECT_EQ(granted_.pop_front(), &write);
    leave(write);
    EXPECT_EQ(granted_.pop_front(), &late);
    leave(late);
    EXPECT_TRUE(bench_.index.consistent());
}

TEST_F(SecondCopy, is_created_during_a_write_only_while_the_write_is_idle) {
    LineOp write, late, other;
    ASSERT_TRUE(enter(write, Access::kExclusive));
    EXPECT_FALSE(bench_.index.enter_beside(line(), op_)) << "the write uses the copies";
    write.rest();
    begin();
    EXPECT_FALSE(bench_.index.enter_beside(line(), other)) << "one at a time";
    EXPECT_FALSE(enter(late, Access::kShared));
    EXPECT_FALSE(bench_.index.resume(write));
    end(true);
    EXPECT_EQ(granted_.pop_front(), &write) << "and not a later operation";
    EXPECT_TRUE(granted_.empty());
    EXPECT_FALSE(bench_.index.enter_beside(line(), op_)) << "the write uses the copies again";
    leave(write);
    EXPECT_EQ(granted_.pop_front(), &late);
    leave(late);
    EXPECT_TRUE(bench_.index.consistent());
}

TEST_F(SecondCopy, is_not_awaited_by_a_write_that_leaves) {
    LineOp write, late;
    ASSERT_TRUE(enter(write, Access::kExclusive));
    write.rest();
    begin();
    ASSERT_FALSE(enter(late, Access::kExclusive));
    leave(write);
    EXPECT_TRUE(granted_.empty());
    end(true);
    EXPECT_EQ(granted_.pop_front(), &late);
    leave(late);
    EXPECT_TRUE(bench_.index.consistent());
}

TEST_F(SecondCopy, is_not_awaited_if_there_is_none) {
    LineOp write;
    ASSERT_TRUE(enter(write, Access::kExclusive));
    write.rest();
    EXPECT_TRUE(bench_.index.resume(write));
    EXPECT_TRUE(write.granted());
    leave(write);
}

TEST_F(SecondCopy, is_no_longer_missing_when_the_line_is_clean) {
    bench_.index.mark_single(line());
    EXPECT_EQ(bench_.index.counters().single_lines, 1u) << "reported twice, counted once";
    bench_.destage(kKey, Index::Destaged::kStable);
    EXPECT_EQ(bench_.index.counters().single_lines, 0u);
    bench_.index.mark_single(line());
    EXPECT_EQ(bench_.index.counters().single_lines, 0u) << "the line is clean";
    EXPECT_TRUE(bench_.index.consistent());
}

// Sub-blocks that an older copy may restore after the last copy was lost.
class LastCopy : public SecondCopy {
  protected:
    void change(const std::function<void(Line&)>& how) { bench_.with(kKey, kAll, Access::kExclusive, how); }
    LostLine lose() {
        const Loss loss = bench_.index.lose_engine(line().holders()[0].engine);
        EXPECT_EQ(loss.lost.size(), 1u);
        return loss.lost.empty() ? LostLine() : loss.lost[0];
    }
};

TEST_F(LastCopy, that_has_confirmed_a_change_is_newer_than_copies_that_missed_it) {
    uint64_t stamp = 0;
    change([&](Line& line) {
        stamp = bench_.index.stamp(line);
        line.seen().set(stamp);
    });
    EXPECT_EQ(lose().generation, stamp);
}

TEST_F(LastCopy, is_not_newer_until_it_has_confirmed_a_change) {
    uint64_t stamp = 0;
    change([&](Line& line) { stamp = bench_.index.stamp(line); });
    EXPECT_LT(lose().generation, stamp);
}

TEST_F(LastCopy, leaves_data_within_the_smallest_size_of_the_volume_to_other_copies) {
    change([&](Line& line) {
        line.seen().cut(6000);
        line.seen().cut(7000);
    });
    EXPECT_EQ(lose().bounds.end, 6000u);
}

TEST_F(LastCopy, that_was_written_after_the_volume_grew_has_the_data_beyond_the_former_end) {
    change([&](Line& line) {
        line.seen().cut(6000);
        bench_.index.stamp(line);
        bench_.index.written(line, sub_block(3), {});
    });
    EXPECT_EQ(lose().bounds.end, kNoEnd);
}

TEST_F(LastCopy, that_recovery_restored_supersedes_newer_copies_from_before_the_recovery) {
    bench_.index.set_generation_floor(1000);
    EXPECT_EQ(lose().bounds.passed_over, 1000u);
}

TEST_F(LastCopy, that_was_written_after_a_recovery_may_have_missed_a_write_in_flight) {
    bench_.index.set_generation_floor(1000);
    change([&](Line& line) {
        bench_.index.stamp(line);
        bench_.index.written(line, sub_block(3), {});
    });
    const LostLine lost = lose();
    EXPECT_EQ(lost.generation, 1001u);
    EXPECT_EQ(lost.bounds.passed_over, 0u);
}

}  // namespace
}  // namespace wss::cache::testing
