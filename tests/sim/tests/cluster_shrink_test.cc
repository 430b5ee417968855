// SPDX-License-Identifier: Apache-2.0
// Volumes that shrink and grow while engines hold lines of them.
#include <chrono>
#include <thread>

#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

class ClusterShrink : public ClusterOperator {
  protected:
    static constexpr uint64_t kBytes = (kSectors - kLine) * io::SimDisk::kSector;  // the disk keeps its size
    static constexpr uint64_t kCut = kLine + 67;  // a sector of the second line, within a sub-block

    void SetUp() override {
        ClusterOperator::SetUp();
        ASSERT_TRUE(try_create("a", a_, kBytes));
        attach("a", a_);
        set_policy("a", Policy::kBack);
        for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(run(a_, Operation::kWrite, i * kLine), Outcome::kOk);
        ASSERT_EQ(dirty(), 4u);
    }
    void expect_that_nothing_came_back() {
        expect_zeroes(kCut, 2 * kLine - kCut);
        for (uint64_t i = 2; i < 4; ++i) expect_zeroes(i * kLine, kLine);
        EXPECT_EQ(run(a_, Operation::kRead, 0, kCut), Outcome::kOk);
    }
};

TEST_F(ClusterShrink, lets_no_dirty_data_beyond_the_end_reappear_when_the_volume_grows) {
    ASSERT_TRUE(resize(kCut * io::SimDisk::kSector));
    EXPECT_EQ(dirty(), 2u);
    EXPECT_EQ(run(a_, Operation::kRead, 0, kCut), Outcome::kOk);
    ASSERT_TRUE(resize(kBytes));
    expect_that_nothing_came_back();
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    expect_that_nothing_came_back();
}

TEST_F(ClusterShrink, makes_a_flush_wait_until_the_volume_has_adopted_the_smaller_size_of_its_storage) {
    a_.disk.shrink(2 * kLine * io::SimDisk::kSector);
    ASSERT_TRUE(a_.client->begin(Operation::kFlush, 0, 0));
    world_.run_for(from_s(3));
    EXPECT_EQ(a_.client->under_way(), 1u);
    EXPECT_EQ(dirty(), 2u);
    ASSERT_TRUE(resize(2 * kLine * io::SimDisk::kSector));
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
    EXPECT_EQ(dirty(), 0u);
}

TEST_F(ClusterShrink, fails_if_the_target_stops_before_engines_have_dropped_the_data) {
    a_.client->close();
    ASSERT_TRUE(until([&] { return a_.client->closed(); }));
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    std::optional<Status> resized;
    begin_resize(2 * kLineBytes, resized);
    world_.run_for(from_ms(20));
    EXPECT_FALSE(resized.has_value());
    target_->stop(from_ms(200));
    ASSERT_TRUE(until([&] { return target_->stopped(); }));
    ASSERT_TRUE(resized.has_value());
    EXPECT_FALSE(*resized) << "the next start does not drop the data";
}

TEST_F(ClusterShrink, fails_if_it_begins_after_a_stop_has_left_dirty_lines_in_engines) {
    a_.client->close();
    ASSERT_TRUE(until([&] { return a_.client->closed(); }));
    a_.disk.refuse(true);
    std::optional<Status> resized;
    target_->before_close = [&] { begin_resize(2 * kLineBytes, resized); };
    target_->stop(from_s(5));
    ASSERT_TRUE(until([&] { return target_->stopped(); }));
    ASSERT_TRUE(resized.has_value());
    EXPECT_FALSE(*resized) << "the next start does not drop the data";
}

// An operator shrinks the storage. The operator's drain waits longer than the clients of the simulation.
class SmallerStorage : public ClusterShrink {
  protected:
    std::optional<Status> drained_;
    void shrink_to(uint64_t lines) {
        a_.disk.shrink(lines * kLine * io::SimDisk::kSector);
        drained_.reset();
        target_->cache().drain("a", [this](Status status) { drained_ = std::move(status); });
    }
    void follow_after(Nanoseconds time, uint64_t lines) {
        world_.run_for(time);
        EXPECT_FALSE(drained_);
        ASSERT_TRUE(resize(lines * kLine * io::SimDisk::kSector));
        ASSERT_TRUE(until([&] { return drained_.has_value(); }));
        EXPECT_TRUE(*drained_) << drained_->to_string();
        EXPECT_EQ(dirty(), 0u);
    }
};

TEST_F(SmallerStorage, that_the_volume_does_not_adopt_within_a_minute_fails_flushes_and_loses_no_data) {
    shrink_to(2);
    world_.run_for(from_s(50));
    EXPECT_FALSE(drained_);
    ASSERT_TRUE(until([&] { return drained_.has_value(); }, from_s(25)));
    EXPECT_FALSE(*drained_);
    EXPECT_EQ(dirty(), 2u);
}

TEST_F(SmallerStorage, that_shrinks_again_has_another_minute) {
    shrink_to(3);
    follow_after(from_s(40), 3);
    ASSERT_EQ(run(a_, Operation::kWrite, 2 * kLine), Outcome::kOk);
    shrink_to(2);
    follow_after(from_s(40), 2);
}

TEST_F(SmallerStorage, that_grew_back_and_shrinks_again_has_another_minute) {
    shrink_to(2);
    follow_after(from_s(40), 2);
    a_.disk.shrink(kSectors * io::SimDisk::kSector);
    ASSERT_TRUE(resize(kBytes));
    for (uint64_t line : {0, 2}) ASSERT_EQ(run(a_, Operation::kWrite, line * kLine), Outcome::kOk);
    shrink_to(2);
    follow_after(from_s(40), 2);
}

// A discard holds all commands of the volume until the dirty lines are destaged.
TEST_F(SmallerStorage, does_not_let_a_discard_block_the_volume) {
    a_.disk.shrink(2 * kLine * io::SimDisk::kSector);
    ASSERT_TRUE(a_.client->begin(Operation::kWriteZeroes, 0, kLine));
    world_.run_for(from_ms(100));
    ASSERT_TRUE(a_.client->begin(Operation::kRead, kLine, kLine));
    EXPECT_TRUE(until([&] { return a_.client->under_way() == 0; }, from_s(2)));
}

// Without the wait, a request beyond the end would make a file longer again.
TEST_F(ClusterShrink, waits_for_requests_in_storage_beyond_the_end_and_holds_no_line) {
    a_.faults.latency_min = a_.faults.latency_max = from_s(1);
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);  // the freeze has nothing to destage
    ASSERT_TRUE(a_.client->begin(Operation::kWriteZeroes, 8 * kLine, kLine));
    world_.run_for(from_ms(100));
    std::optional<Status> resized;
    begin_resize(kLineBytes * 4, resized);
    world_.run_for(from_ms(500));
    EXPECT_FALSE(resized.has_value());
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_TRUE(until([&] { return resized.has_value(); }, from_s(1)) && *resized);
}

TEST_F(ClusterShrink, lets_no_dirty_data_beyond_the_end_reappear_after_a_crash_of_the_target) {
    ASSERT_TRUE(resize(kCut * io::SimDisk::kSector));
    restart_target();
    ASSERT_TRUE(try_create("a", a_, kCut * io::SimDisk::kSector));
    ASSERT_TRUE(until([&] { return a_.client->live() && recovered(); }));
    ASSERT_TRUE(resize(kBytes));
    expect_that_nothing_came_back();
}

TEST_F(ClusterShrink, drops_clean_data_beyond_the_end_too) {
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
    ASSERT_TRUE(resize(kLine * io::SimDisk::kSector));
    EXPECT_EQ(target_->cache().info().index.lines, 1u);
}

// The discard goes to real storage alone, so engines must not keep any data that it covers.
TEST_F(ClusterShrink, makes_a_discard_wait_for_a_line_that_is_being_truncated) {
    set_policy("a", Policy::kThrough);
    ASSERT_EQ(run(a_, Operation::kRead, kLine), Outcome::kOk);
    ASSERT_EQ(target_->cache().info().volumes.at(1).counters.read_hits, 1u) << "engines hold the line";
    std::optional<Status> resized;
    begin_resize(kCut * io::SimDisk::kSector, resized);
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    world_.run_for(from_ms(50));
    EXPECT_TRUE(a_.client->begin(Operation::kWriteZeroes, kLine, 8));
    world_.run_for(from_ms(300));
    world_.heal_all();
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0 && resized.has_value(); }));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
    EXPECT_EQ(live_engines(), 2u) << "no engine was lost";
    EXPECT_EQ(run(a_, Operation::kRead, kLine, 8), Outcome::kOk);
}

TEST_F(ClusterShrink, no_longer_counts_data_beyond_the_new_end_as_lost) {
    for (EngineNode& engine : engines_) kill_engine(engine);
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.empty(); }));
    ASSERT_TRUE(resize(kLine * io::SimDisk::kSector));
    EXPECT_EQ(target_->cache().info().volumes.at(1).lost_bytes, kLineBytes);
    ASSERT_TRUE(resize(kBytes));
    for (uint64_t i = 1; i < 4; ++i) expect_zeroes(i * kLine, kLine);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kMediumError);
}

TEST_F(ClusterShrink, that_waits_excludes_others_until_it_succeeds_or_fails) {
    world_.cut(node_, *engines_[1].node);
    restart_target();
    ASSERT_TRUE(try_create("a", a_, kBytes));
    ASSERT_TRUE(target_->cache().recovering());
    std::optional<Status> resized, removed;
    begin_resize(kLine * io::SimDisk::kSector, resized);
    world_.run_for(from_s(1));
    ASSERT_FALSE(resized.has_value()) << "the lines beyond the end are not known yet";
    EXPECT_EQ(resize(kBytes / 2).code(), Code::kBusy);
    target_->remove_volume("a", [&](Status status) { removed = status; });
    ASSERT_TRUE(until([&] { return removed.has_value(); }));
    ASSERT_TRUE(resized.has_value());
    EXPECT_FALSE(*resized);
    world_.heal_all();
    ASSERT_TRUE(try_create("a", b_, kBytes));
    // A thread outside the simulated time ends the first shrink.
    Status again;
    for (int tries = 0; tries < 1000; ++tries) {
        again = resize(kLine * io::SimDisk::kSector);
        if (again.code() != Code::kBusy) break;
        world_.run_for(from_ms(10));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(again);
    EXPECT_TRUE(resize(kBytes));
}

TEST_F(ClusterShrink, waits_for_a_recovery_and_drops_the_lines_that_it_finds) {
    world_.cut(node_, *engines_[1].node);
    restart_target();
    ASSERT_TRUE(try_create("a", a_, kBytes));
    std::optional<Status> resized;
    begin_resize(kCut * io::SimDisk::kSector, resized);
    world_.run_for(from_s(1));
    world_.heal_all();
    ASSERT_TRUE(until([&] { return resized.has_value(); }));
    EXPECT_TRUE(*resized);
    ASSERT_TRUE(resize(kBytes));
    expect_that_nothing_came_back();
}

// No line of the volume is left to destage.
TEST_F(ClusterShrink, ends_flushes_that_wait_for_lines_that_it_drops) {
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    ASSERT_EQ(run(a_, Operation::kWrite, 3 * kLine), Outcome::kOk);
    a_.disk.refuse(true);
    EXPECT_FALSE(drain("a"));
    std::optional<Status> drained, set, resized;
    target_->cache().drain("a", [&](Status status) { drained = std::move(status); });
    target_->cache().set_policy("a", {.policy = Policy::kThrough},
                                [&](Status status) { set = std::move(status); });
    world_.run_for(from_ms(20));
    begin_resize(kCut * io::SimDisk::kSector, resized);
    ASSERT_TRUE(until([&] { return resized.has_value(); }));
    EXPECT_TRUE(*resized);
    a_.disk.refuse(false);
    EXPECT_TRUE(until([&] { return drained && set; }));
    EXPECT_EQ(run(a_, Operation::kRead, 0, kCut), Outcome::kOk) << "the volume is not frozen";
}

// The line is free again, but no longer part of the volume.
TEST_F(ClusterShrink, ends_commands_that_waited_for_a_line_beyond_the_end_as_out_of_range) {
    set_policy("a", Policy::kThrough);
    a_.faults.latency_min = a_.faults.latency_max = from_s(1);
    for (const Operation operation : {Operation::kWrite, Operation::kRead}) {
        ASSERT_TRUE(a_.client->begin(Operation::kWrite, 3 * kLine, 4));
        world_.run_for(from_ms(100));
        ASSERT_TRUE(a_.client->begin(operation, 3 * kLine + 4, 4));
        world_.run_for(from_ms(100));
        ASSERT_EQ(a_.client->under_way(), 2u);
        ASSERT_TRUE(resize(2 * kLineBytes));
        ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
        EXPECT_EQ(a_.client->last_outcome(), Outcome::kOutOfRange) << to_string(operation);
        ASSERT_TRUE(resize(kBytes));
        world_.run_for(from_ms(100));  // the client gets the new size
    }
}

// Storage holds an older write there. Reads may return it or not, but must not change from one to the other.
TEST_F(ClusterShrink, lets_no_data_beyond_a_former_end_change_by_itself) {
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    ASSERT_EQ(run(a_, Operation::kWrite, kLine), Outcome::kOk);
    ASSERT_TRUE(resize(kCut * io::SimDisk::kSector));
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    ASSERT_TRUE(resize(kBytes));
    const std::string first = seen(kCut, 5);
    set_policy("a", Policy::kNone);
    EXPECT_EQ(seen(kCut, 5), first);
}

}  // namespace
}  // namespace wss::sim
