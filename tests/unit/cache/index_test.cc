// SPDX-License-Identifier: Apache-2.0
// The index: where lines are, which of their copies are valid, and which operations may enter a line.
#include "lib/cache/index.h"

#include <gtest/gtest.h>

#include "tests/unit/cache/bench.h"

namespace wss::cache::testing {
namespace {

constexpr LineKey kKey{1, 42};

LineOp* only(Granted& granted) {
    LineOp* op = granted.pop_front();
    return granted.empty() ? op : nullptr;
}

struct Op : LineOp {
    Op(Access how, SubBlocks which) {
        access = how;
        sub_blocks = which;
    }
};

TEST(CacheIndex, makes_a_read_after_a_write_wait_for_it) {
    Bench bench;
    Line& line = *bench.index.open(kKey);
    Op write(Access::kExclusive, sub_block(0) | sub_block(1)), read(Access::kShared, sub_block(1)),
        apart(Access::kShared, sub_block(2));
    EXPECT_TRUE(bench.index.enter(line, write));
    EXPECT_FALSE(bench.index.enter(line, read));
    EXPECT_TRUE(bench.index.enter(line, apart)) << "no sub-block in common";
    Granted granted;
    bench.index.leave(apart, granted);
    EXPECT_TRUE(granted.empty());
    bench.index.leave(write, granted);
    EXPECT_EQ(only(granted), &read);
    EXPECT_TRUE(read.granted());
    bench.index.leave(read, granted);
    EXPECT_EQ(bench.index.find(kKey), nullptr) << "an absent line without operations is forgotten";
}

TEST(CacheIndex, gives_no_line_a_slot_or_an_entry_reserved_for_slots_while_placement_is_held) {
    Bench bench(2, 8, 3);
    bench.index.hold_placement(true);
    EXPECT_EQ(bench.index.placeable_engines(), 0u);
    EXPECT_FALSE(bench.fill(kKey));
    std::vector<std::unique_ptr<Op>> operations;
    uint64_t opened = 0;
    for (uint64_t line = 0; line < 19; ++line)
        if (Line* entry = bench.index.open({0, line})) {
            operations.push_back(std::make_unique<Op>(Access::kExclusive, kAll));
            EXPECT_TRUE(bench.index.enter(*entry, *operations.back()));
            ++opened;
        }
    EXPECT_EQ(opened, 3u) << "16 are for lines with slots";
    Granted granted;
    for (auto& operation : operations) bench.index.leave(*operation, granted);
    bench.index.hold_placement(false);
    EXPECT_TRUE(bench.fill(kKey));
    EXPECT_TRUE(bench.index.consistent());
}

TEST(CacheIndex, serves_readers_of_a_line_at_once_only_while_no_operation_changes_it_or_waits_to) {
    Bench bench;
    ASSERT_TRUE(bench.fill(kKey, sub_block(0) | sub_block(1)));
    Line& line = *bench.index.find(kKey);
    EXPECT_TRUE(line.serves(sub_block(0) | sub_block(1)));
    EXPECT_FALSE(line.serves(sub_block(1) | sub_block(2))) << "not all of it is valid";
    Op read(Access::kShared, sub_block(0)), write(Access::kExclusive, sub_block(0));
    EXPECT_TRUE(bench.index.enter(line, read));
    EXPECT_TRUE(line.serves(sub_block(0))) << "readers share";
    EXPECT_FALSE(bench.index.enter(line, write));
    EXPECT_FALSE(line.serves(sub_block(0))) << "a read may not overtake a write that waits";
    Granted granted;
    bench.index.leave(read, granted);
    EXPECT_EQ(only(granted), &write);
    EXPECT_FALSE(line.serves(sub_block(0))) << "nor see half of it";
    bench.index.leave(write, granted);
    EXPECT_TRUE(line.serves(sub_block(0)));
}

TEST(CacheIndex, runs_operations_on_a_sub_block_in_order_of_arrival) {
    Bench bench;
    Line& line = *bench.index.open(kKey);
    Op first(Access::kShared, sub_block(0)), write(Access::kExclusive, sub_block(0)),
        later(Access::kShared, sub_block(0));
    EXPECT_TRUE(bench.index.enter(line, first));
    EXPECT_FALSE(bench.index.enter(line, write));
    EXPECT_FALSE(bench.index.enter(line, later)) << "a read may not overtake a write that waits";
    Granted granted;
    bench.index.leave(first, granted);
    EXPECT_EQ(only(granted), &write);
    bench.index.leave(write, granted);
    EXPECT_EQ(only(granted), &later);
    bench.index.leave(later, granted);
}

TEST(CacheIndex, lets_the_operation_after_an_abandoned_one_continue) {
    Bench bench;
    Line& line = *bench.index.open(kKey);
    Op read(Access::kShared, sub_block(0)), write(Access::kExclusive, sub_block(0)),
        later(Access::kShared, sub_block(0));
    bench.index.enter(line, read);
    bench.index.enter(line, write);
    bench.index.enter(line, later);
    Granted granted;
    bench.index.leave(write, granted);
    EXPECT_EQ(only(granted), &later);
    bench.index.leave(later, granted);
    bench.index.leave(read, granted);
    EXPECT_EQ(bench.index.counters().operations, 0u);
}

TEST(CacheIndex, never_evicts_a_line_in_use_or_dirty) {
    Bench bench(1, 2);
    ASSERT_TRUE(bench.fill({0, 0}));
    ASSERT_TRUE(bench.write({0, 1}, kAll, {}, 1));
    Op read(Access::kShared, sub_block(0));
    bench.index.enter(*bench.index.find({0, 0}), read);
    EXPECT_FALSE(bench.fill({0, 2})) << "one is being read, the other is dirty";
    EXPECT_EQ(bench.index.counters().no_room, 1u);
    Granted granted;
    bench.index.leave(read, granted);
    EXPECT_TRUE(bench.fill({0, 2}));
    EXPECT_EQ(bench.index.find({0, 0}), nullptr);
    EXPECT_NE(bench.index.find({0, 1}), nullptr);
    EXPECT_TRUE(bench.index.consistent());
}

TEST(CacheIndex, does_not_make_a_line_loaded_ahead_of_a_sequential_reader_hot) {
    Bench bench(1, 8);
    auto touch = [&](LineKey key, SubBlocks sub_blocks) {
        bench.with(key, sub_blocks, Access::kShared,
                   [&](Line& line) { bench.index.touch(line, sub_blocks); });
    };
    const LineKey hot{0, 0}, passed{0, 1}, read_again{0, 2};
    for (LineKey key : {hot, passed, read_again, LineKey{0, 3}}) ASSERT_TRUE(bench.fill(key));
    for (int i = 0; i < 4; ++i) touch(hot, sub_block(3));
    for (LineKey key : {passed, read_again}) {
        bench.with(key, kAll, Access::kExclusive, [&](Line& line) { bench.index.read_ahead(line); });
        for (uint32_t i = 0; i < 16; ++i) touch(key, sub_block(i));
    }
    for (int i = 0; i < 4; ++i) touch(read_again, sub_block(3));
    for (uint64_t used_twice = 0; used_twice < 40; ++used_twice) {
        ASSERT_TRUE(bench.fill({1, used_twice}));
        touch({1, used_twice}, sub_block(3));
    }
    EXPECT_NE(bench.index.find(hot), nullptr);
    EXPECT_NE(bench.index.find(read_again), nullptr) << "reads after the sequential pass count";
    EXPECT_EQ(bench.index.find(passed), nullptr) << "sixteen sequential reads do not keep a line";
}

TEST(CacheIndex, keeps_dirty_lines_in_two_engines_until_they_are_clean) {
    Bench bench(3);
    ASSERT_TRUE(bench.write(kKey, kAll));
    Line* line = bench.index.find(kKey);
    ASSERT_EQ(line->holders().size(), 2u);
    EXPECT_NE(line->holders()[0].engine, line->holders()[1].engine);
    EXPECT_TRUE(bench.destage(kKey));
    EXPECT_EQ(line->state(), LineState::kClean);
    EXPECT_EQ(line->holders().size(), 1u) << "the second copy is dropped";
    EXPECT_EQ(line->valid(), kAll);
    EXPECT_TRUE(bench.index.consistent());
}

TEST(CacheIndex, needs_two_engines_for_two_copies) {
    Bench bench(1);
    Placed placed{};
    bench.with(kKey, kAll, Access::kExclusive, [&](Line& line) { placed = bench.index.place(line, 2); });
    EXPECT_EQ(placed, Placed::kNoEngine);
    EXPECT_EQ(bench.index.find(kKey), nullptr);
    EXPECT_TRUE(bench.index.consistent());
}

TEST(CacheIndex, keeps_a_write_during_destaging_dirty) {
    Bench bench;
    ASSERT_TRUE(bench.write(kKey, sub_block(0), from_s(1)));
    Line& line = *bench.index.find(kKey);
    Op destage(Access::kShared, line.dirty());
    ASSERT_TRUE(bench.index.enter(line, destage));
    Index::Destage what = bench.index.begin_destage(line);
    EXPECT_EQ(what.sub_blocks, sub_block(0));
    Op overwrite(Access::kExclusive, sub_block(0));
    EXPECT_FALSE(bench.index.enter(line, overwrite)) << "data being destaged does not change";
    ASSERT_TRUE(bench.write(kKey, sub_block(1), from_s(2)));
    EXPECT_EQ(line.state(), LineState::kDestaging);
    bench.index.end_destage(line, what, Index::Destaged::kStable);
    EXPECT_EQ(line.dirty(), sub_block(1));
    EXPECT_EQ(line.state(), LineState::kDirty);
    EXPECT_EQ(line.dirty_since(), from_s(2));
    Granted granted;
    bench.index.leave(destage, granted);
    EXPECT_EQ(only(granted), &overwrite);
    bench.index.leave(overwrite, granted);
    EXPECT_TRUE(bench.index.consistent());
}

TEST(CacheIndex, keeps_the_data_and_its_age_and_defers_the_line_after_failed_destaging) {
    Bench bench;
    ASSERT_TRUE(bench.write({0, 1}, sub_block(0), from_s(1)));
    ASSERT_TRUE(bench.write({0, 2}, sub_block(0), from_s(2)));
    bench.destage({0, 1}, Index::Destaged::kFailed);
    Line* oldest = bench.index.dirty(0).oldest([](const Line&) { return true; });
    ASSERT_NE(oldest, nullptr);
    EXPECT_EQ(oldest->key(), (LineKey{0, 2})) << "the other line is not held up";
    Line* failed = bench.index.dirty(0).first_deferred();
    ASSERT_NE(failed, nullptr);
    EXPECT_EQ(failed->key(), (LineKey{0, 1}));
    EXPECT_EQ(failed->dirty_since(), from_s(1));
    EXPECT_EQ(failed->dirty(), sub_block(0));
    EXPECT_EQ(bench.index.dirty(0).since(), from_s(1));
    EXPECT_TRUE(bench.index.consistent());
}

TEST(CacheIndex, makes_a_flush_wait_for_the_writes_before_it_and_for_no_others) {
    Bench bench;
    ASSERT_TRUE(bench.write({0, 1}, sub_block(0)));
    uint64_t mark = bench.index.flush_mark();
    ASSERT_TRUE(bench.write({0, 2}, sub_block(0)));
    EXPECT_FALSE(bench.index.dirty(0).flushed(mark));
    EXPECT_TRUE(bench.index.dirty(1).flushed(mark)) << "another volume";
    Line& line = *bench.index.find({0, 1});
    Op destage(Access::kShared, line.dirty());
    bench.index.enter(line, destage);
    Index::Destage what = bench.index.begin_destage(line);
    EXPECT_FALSE(bench.index.dirty(0).flushed(mark)) << "it is being destaged, but not stored yet";
    bench.index.end_destage(line, what, Index::Destaged::kStable);
    Granted granted;
    bench.index.leave(destage, granted);
    EXPECT_TRUE(bench.index.dirty(0).flushed(mark)) << "the later write does not count";
    EXPECT_EQ(bench.index.dirty_lines(0), 1u);
}

TEST(CacheIndex, loses_hits_but_no_dirty_data_with_an_engine_if_there_are_two_copies) {
    Bench bench(2, 64);
    for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(bench.write({0, i}, sub_block(3)));
    for (uint64_t i = 100; i < 120; ++i) ASSERT_TRUE(bench.fill({0, i}));
    Loss loss = bench.index.lose_engine({0});
    EXPECT_EQ(loss.dirty_lines, 0u);
    EXPECT_EQ(loss.second_copies, 20u);
    for (uint64_t i = 0; i < 20; ++i) {
        Line* line = bench.index.find({0, i});
        ASSERT_NE(line, nullptr);
        EXPECT_EQ(line->dirty(), sub_block(3));
        ASSERT_EQ(line->holders().size(), 1u);
        EXPECT_EQ(line->holders()[0].engine, EngineIndex{1});
    }
    EXPECT_TRUE(bench.index.consistent());
    bench.add_engine(0, 64);
    EXPECT_TRUE(bench.write({0, 500}, sub_block(0))) << "the engine is back and used again";
}

TEST(CacheIndex, keeps_only_the_dirty_sub_blocks_of_the_remaining_copy) {
    Bench bench(2, 8);
    ASSERT_TRUE(bench.fill(kKey));
    EngineIndex primary = bench.index.find(kKey)->holders()[0].engine;
    ASSERT_TRUE(bench.write(kKey, sub_block(3)));
    EXPECT_EQ(bench.index.find(kKey)->valid(), kAll);
    bench.index.lose_engine(primary);
    EXPECT_EQ(bench.index.find(kKey)->valid(), sub_block(3))
        << "clean sub-blocks were in the first copy alone";
    EXPECT_TRUE(bench.index.consistent());
}

TEST(CacheIndex, ignores_operations_in_flight_when_their_engine_is_lost) {
    Bench bench(1, 8);
    Line& line = *bench.index.open(kKey);
    Op write(Access::kExclusive, kAll);
    bench.index.enter(line, write);
    ASSERT_EQ(bench.index.place(line, 1), Placed::kDone);
    bench.index.lose_engine({0});
    EXPECT_FALSE(bench.index.written(line, kAll, {}));
    EXPECT_FALSE(bench.index.filled(line, kAll));
    EXPECT_EQ(line.state(), LineState::kAbsent);
    Granted granted;
    bench.index.leave(write, granted);
    EXPECT_EQ(bench.index.find(kKey), nullptr);
    EXPECT_TRUE(bench.index.consistent());
}

TEST(CacheIndex, does_not_clean_a_later_write_after_destaging_that_outlives_its_copies) {
    Bench bench(1, 8);
    ASSERT_TRUE(bench.write(kKey, sub_block(0), {}, 1));
    Line& line = *bench.index.find(kKey);
    Op destage(Access::kShared, sub_block(0));
    bench.index.enter(line, destage);
    Index::Destage what = bench.index.begin_destage(line);
    bench.index.lose_engine({0});
    bench.add_engine(1, 8);
    ASSERT_TRUE(bench.write(kKey, sub_block(1), {}, 1));
    Op again(Access::kShared, sub_block(1));
    bench.index.enter(line, again);
    Index::Destage later = bench.index.begin_destage(line);
    bench.index.end_destage(line, what, Index::Destaged::kStable);
    EXPECT_EQ(line.dirty(), sub_block(1));
    bench.index.end_destage(line, later, Index::Destaged::kStable);
    EXPECT_TRUE(line.dirty().empty());
    Granted granted;
    bench.index.leave(destage, granted);
    bench.index.leave(again, granted);
    EXPECT_TRUE(bench.index.consistent());
}

TEST(CacheIndex, gives_no_new_lines_to_a_drained_engine) {
    Bench bench(2, 64);
    bench.index.drain_engine({0});
    for (uint64_t i = 0; i < 50; ++i) {
        ASSERT_TRUE(bench.fill({0, i}));
        EXPECT_EQ(bench.index.find({0, i})->holders()[0].engine, EngineIndex{1});
    }
}

TEST(CacheIndex, limits_the_number_of_transient_lines) {
    Bench bench(0, 0, 2);
    Line* lines[2] = {bench.index.open({0, 1}), bench.index.open({0, 2})};
    Op ops[2] = {{Access::kShared, sub_block(0)}, {Access::kShared, sub_block(0)}};
    for (int i = 0; i < 2; ++i) bench.index.enter(*lines[i], ops[i]);
    EXPECT_EQ(bench.index.open({0, 3}), nullptr);
    Granted granted;
    for (LineOp& op : ops) bench.index.leave(op, granted);
    EXPECT_NE(bench.index.open({0, 3}), nullptr);
}

TEST(CacheIndex, no_longer_counts_erased_lines_and_frees_their_slots_after_confirmation) {
    Bench bench(2, 4);
    ASSERT_TRUE(bench.write(kKey, kAll));
    bench.with(kKey, kAll, Access::kExclusive, [&](Line& line) {
        bench.index.begin_erase(line, LineState::kWiping);
        EXPECT_TRUE(line.valid().empty() && line.dirty().empty());
        EXPECT_EQ(bench.index.used_slots({0}) + bench.index.used_slots({1}), 2u);
        EXPECT_TRUE(bench.index.dirty(1).flushed(bench.index.flush_mark()));
        bench.index.erased(line);
    });
    EXPECT_EQ(bench.index.used_slots({0}) + bench.index.used_slots({1}), 0u);
    EXPECT_TRUE(bench.index.remove_volume(1).is_ok());
    EXPECT_TRUE(bench.index.consistent());
}

TEST(CacheIndex, permits_no_unsafe_change_of_the_state_of_a_line) {
    EXPECT_TRUE(may_follow(LineState::kAbsent, LineState::kFilling));
    EXPECT_FALSE(may_follow(LineState::kAbsent, LineState::kDirty)) << "dirty data needs slots first";
    EXPECT_FALSE(may_follow(LineState::kDestaging, LineState::kEvicting)) << "data is being destaged";
    EXPECT_FALSE(may_follow(LineState::kWiping, LineState::kClean))
        << "data of a deleted volume does not return";
    EXPECT_FALSE(may_follow(LineState::kEvicting, LineState::kClean));
}

}  // namespace
}  // namespace wss::cache::testing
