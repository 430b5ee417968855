// SPDX-License-Identifier: Apache-2.0
// Engines are cut off while dirty lines have another copy, and return after that copy is lost. The tests
// check which of their copies the target recovers.
#include <algorithm>

#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

class DepartedEngines : public ClusterOperator {
  protected:
    static constexpr uint64_t kBytes = (kSectors - kLine) * io::SimDisk::kSector;
    static constexpr uint64_t kCut = kLine + 67;  // a sector of the second line, within a sub-block
    static constexpr uint64_t kSubBlock = 8;

    void SetUp() override {
        ClusterOperator::SetUp();
        ASSERT_TRUE(try_create("a", a_, kBytes));
        attach("a", a_);
        set_policy("a", Policy::kBack);
        write_lines(2);
        a_.disk.refuse(true);
    }
    void expect_engines(size_t count) {
        ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == count; }));
    }
    void cut_off(size_t engine) {
        const size_t before = target_->cache().info().engines.size();
        world_.cut(node_, *engines_[engine].node);
        expect_engines(before - 1);
    }
    void lose(size_t engine) {
        const size_t before = target_->cache().info().engines.size();
        kill_engine(engines_[engine]);
        expect_engines(before - 1);
    }
    void heal(size_t engine) { world_.heal(node_, *engines_[engine].node); }
    uint64_t lost(size_t volume = 1) { return target_->cache().info().volumes.at(volume).lost_bytes; }
    bool all_back() {
        a_.disk.refuse(false);
        world_.heal_all();
        return until([&] { return lost() == 0; });
    }
    void shrink_and_grow() {
        ASSERT_TRUE(resize(kCut * io::SimDisk::kSector));
        ASSERT_TRUE(resize(kBytes));
    }
    void expect_that_all_but_what_was_cut_is_there() {
        expect_zeroes(kCut, 2 * kLine - kCut);
        EXPECT_EQ(run(a_, Operation::kRead, 0, kCut), Outcome::kOk);
    }
};

// ---- A volume that shrank and grew meanwhile -------------------------------------------------------------

TEST_F(DepartedEngines, return_no_data_beyond_an_end_that_they_did_not_see) {
    cut_off(0);
    ASSERT_TRUE(resize(kCut * io::SimDisk::kSector));
    EXPECT_EQ(dirty(), 2u);
    ASSERT_TRUE(resize(kBytes));
    expect_zeroes(kCut, 200 - kCut);  // part of a dirty sub-block in an engine
    lose(1);
    ASSERT_TRUE(all_back());
    expect_that_all_but_what_was_cut_is_there();
}

TEST_F(DepartedEngines, return_no_data_beyond_an_end_if_the_truncated_copy_is_lost_before_its_report) {
    cut_off(0);
    world_.cut(node_, *engines_[1].node);
    shrink_and_grow();
    expect_engines(0);
    ASSERT_GT(lost(), 0u);
    kill_engine(engines_[1]);
    ASSERT_TRUE(all_back());
    expect_that_all_but_what_was_cut_is_there();
}

TEST_F(DepartedEngines, return_data_written_beyond_a_former_end) {
    shrink_and_grow();
    attach("a", a_);  // the client reads the new size
    ASSERT_EQ(run(a_, Operation::kWrite, kLine, kLine), Outcome::kOk);
    cut_off(0);
    lose(1);
    ASSERT_TRUE(all_back());
    EXPECT_EQ(run(a_, Operation::kRead, kLine, kLine), Outcome::kOk);
}

// Both engines are away while the volume shrinks and grows.
class BothDepartedEngines : public DepartedEngines, public ::testing::WithParamInterface<bool> {};

TEST_P(BothDepartedEngines, return_no_data_beyond_an_end_that_they_did_not_see) {
    const bool restarts = GetParam();
    cut_off(0);
    cut_off(1);
    shrink_and_grow();
    if (restarts) {
        restart_target_alone();
        ASSERT_TRUE(try_create("a", a_, kBytes));
        ASSERT_TRUE(until([&] { return a_.client->live(); }));
    }
    ASSERT_EQ(lost(), kLineBytes + 9 * cache::kSubBlockBytes) << "only a part of the last sub-block";
    ASSERT_TRUE(all_back());
    expect_that_all_but_what_was_cut_is_there();
}

INSTANTIATE_TEST_SUITE_P(Restart, BothDepartedEngines, ::testing::Bool());

// ---- A write that failed meanwhile -----------------------------------------------------------------------

TEST_F(DepartedEngines, do_not_undo_a_failed_write_that_a_reader_may_have_seen) {
    cut_off(0);
    EXPECT_NE(run(a_, Operation::kWrite, 0, kSubBlock), Outcome::kOk);
    const std::string before = seen(0, kSubBlock);
    cut_off(1);
    a_.disk.refuse(false);
    heal(0);
    ASSERT_TRUE(until([&] { return lost() == kLineBytes; })) << "the other line is recovered";
    world_.run_for(from_s(10));
    EXPECT_EQ(lost(), kLineBytes) << "only the other copy is as a reader saw it";
    ASSERT_TRUE(all_back());
    EXPECT_EQ(seen(0, kSubBlock), before);
}

TEST_F(DepartedEngines, return_a_line_if_the_other_copy_is_lost_before_a_reader_can_see_a_failed_write) {
    cut_off(0);
    a_.faults.latency_min = a_.faults.latency_max = from_ms(500);
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, 0, kSubBlock));
    world_.run_for(from_ms(200));
    world_.cut(node_, *engines_[1].node);  // it has the write, but no report that storage refuses it
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_NE(a_.client->last_outcome(), Outcome::kOk);
    expect_engines(0);
    kill_engine(engines_[1]);
    ASSERT_TRUE(all_back());
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
}

TEST_F(DepartedEngines, return_a_line_in_which_a_failed_write_changed_no_dirty_data) {
    ASSERT_EQ(run(a_, Operation::kWrite, 2 * kLine, kSubBlock), Outcome::kOk);
    cut_off(0);
    EXPECT_NE(run(a_, Operation::kWrite, 2 * kLine + 2 * kSubBlock, kSubBlock), Outcome::kOk);
    lose(1);
    ASSERT_TRUE(all_back());
    EXPECT_EQ(run(a_, Operation::kRead, 2 * kLine), Outcome::kOk);
}

// ---- Further losses while copies are recovered -----------------------------------------------------------

class DepartedEnginesOfThree : public DepartedEngines {
  protected:
    // Each pair of engines shares copies of some lines.
    void SetUp() override {
        DepartedEngines::SetUp();
        engines_.push_back({&world_.add_node("engine2"), nullptr});
        start_engine(engines_.back());
        ASSERT_TRUE(until([&] { return live_engines() == 3; }));
    }
    void write_many(Volume& volume) {
        for (uint64_t i = 2; i < 26; ++i) ASSERT_EQ(run(volume, Operation::kWrite, i * kLine), Outcome::kOk);
    }
    // Afterwards the first engine is back, with copies of the lines that it shares with the third one.
    void lose_two_and_heal_the_first() {
        cut_off(0);
        cut_off(1);
        const uint64_t before = lost();
        ASSERT_GT(before, 0u);
        heal(0);
        world_.run_for(from_s(5));
        ASSERT_EQ(lost(), before) << "the recovery waits for storage";
    }
};

TEST_F(DepartedEnginesOfThree, return_data_that_is_lost_after_their_return) {
    write_many(a_);
    lose_two_and_heal_the_first();
    const uint64_t before = lost();
    kill_engine(engines_[2]);
    ASSERT_TRUE(until([&] { return lost() > before; }));
    ASSERT_TRUE(all_back());
    for (uint64_t i = 0; i < 26; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
    EXPECT_TRUE(until([&] { return live_engines() == 2; })) << "the engines rejoin";
}

TEST_F(DepartedEnginesOfThree, return_lines_of_one_volume_while_the_storage_of_another_fails) {
    ASSERT_TRUE(try_create("b", b_, kBytes));
    attach("b", b_);
    set_policy("b", Policy::kBack);
    write_many(a_);
    write_many(b_);
    b_.disk.refuse(true);
    lose_two_and_heal_the_first();
    const uint64_t before = lost(2);
    kill_engine(engines_[2]);
    ASSERT_TRUE(until([&] { return lost(2) > before; }));
    b_.disk.refuse(false);
    heal(1);
    EXPECT_TRUE(until([&] { return lost(2) == 0; }));
    EXPECT_GT(lost(), 0u);
    ASSERT_TRUE(all_back());
}

TEST_F(DepartedEnginesOfThree, rejoin_only_once_after_a_loss) {
    write_many(a_);
    lose_two_and_heal_the_first();
    kill_engine(engines_[2]);
    world_.run_for(from_s(10));
    for (int i = 0; i < 100; ++i) {
        world_.run_for(from_ms(100));
        ASSERT_EQ(target_->cache().info().engines.size(), 1u);
    }
    ASSERT_TRUE(all_back());
}

// ---- A recovery without these engines --------------------------------------------------------------------

// A recovery without an engine must have the same result as its loss while the target runs.
class EnginesDepartedBefore : public DepartedEngines, public ::testing::WithParamInterface<bool> {};

TEST_P(EnginesDepartedBefore, return_data_that_only_they_hold) {
    const bool recovers = GetParam();  // false: the engine was lost while the target ran
    options_.recovery_grace = from_s(2);
    if (recovers) {
        world_.cut(node_, *engines_[0].node);
        restart_target_alone();
        ASSERT_TRUE(try_create("a", a_, kBytes));
        ASSERT_TRUE(until([&] { return !target_->cache().recovering() && a_.client->live(); }));
        ASSERT_EQ(dirty(), 2u);
    } else {
        cut_off(0);
    }
    lose(1);
    ASSERT_TRUE(all_back());
    for (uint64_t i = 0; i < 2; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
}

INSTANTIATE_TEST_SUITE_P(Recovery, EnginesDepartedBefore, ::testing::Bool());

// A write was in flight when the target ended, and the engine that has its data returns late.
TEST_F(DepartedEngines, do_not_apply_a_write_that_preceded_a_recovery_and_was_not_seen_after_it) {
    options_.recovery_grace = from_s(2);
    world_.cut(node_, *engines_[1].node);
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, 0, kLine));
    world_.run_for(from_ms(200));
    ASSERT_EQ(a_.client->under_way(), 1u) << "the first engine has it";
    client_node().crash();
    retire(std::move(a_.client));
    world_.cut(node_, *engines_[0].node);
    heal(1);
    restart_target_alone();
    ASSERT_TRUE(try_create("a", a_, kBytes));
    ASSERT_TRUE(until([&] { return !target_->cache().recovering(); }));
    ASSERT_EQ(dirty(), 2u);
    const std::string before = seen(0, kLine);
    cut_off(1);
    a_.disk.refuse(false);
    heal(0);
    ASSERT_TRUE(until([&] { return lost() == kLineBytes; })) << "the other line is recovered";
    world_.run_for(from_s(10));
    EXPECT_EQ(lost(), kLineBytes);
    ASSERT_TRUE(all_back());
    EXPECT_EQ(seen(0, kLine), before);
}

}  // namespace
}  // namespace wss::sim
