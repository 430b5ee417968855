// SPDX-License-Identifier: Apache-2.0
// Dirty lines with one remaining copy get a second one while real storage does not accept them, so that the
// loss of another engine loses no data. For the first two copies, which a write needs before it is
// acknowledged, see tests/unit/cache/policy_test.cc and cluster_acknowledgement_test.cc.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

constexpr uint64_t kLines = 12;

enum class Storage { kRefuses, kHangs };

class ClusterMirror : public ClusterOperator {
  protected:
    void SetUp() override {
        ClusterOperator::SetUp();
        create_under_write_back();
        write_lines(kLines);
    }
    void start_third_engine() {
        engines_.push_back({&world_.add_node("engine2"), nullptr});
        start_engine(engines_.back());
        ASSERT_TRUE(until([&] { return live_engines() == 3; }));
    }
    void fail_storage(Storage how) {
        if (how == Storage::kRefuses) a_.disk.refuse(true);
        if (how == Storage::kHangs) a_.faults.latency_min = a_.faults.latency_max = from_s(24 * 3600);
    }
    void heal_storage() {
        a_.disk.refuse(false);
        a_.faults = {};
    }
    void restart() {
        restart_target();
        create("a", a_);
        ASSERT_TRUE(until([&] { return !target_->cache().recovering() && a_.client->live(); }));
    }
    uint64_t single() {
        uint64_t lines = 0;
        for (const auto& volume : target_->cache().info().volumes) lines += volume.single_lines;
        for (const auto& volume : target_->cache().info().absent) lines += volume.single_lines;
        return lines;
    }
    void lose(size_t engine) {
        const size_t before = target_->cache().info().engines.size();
        kill_engine(engines_[engine]);
        ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == before - 1; }));
    }
    void expect_that_nothing_is_lost() {
        for (uint64_t i = 0; i < kLines; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
    }
};

class ClusterMirrorAfterRestart : public ClusterMirror,
                                  public ::testing::WithParamInterface<std::tuple<Storage, size_t>> {};

TEST_P(ClusterMirrorAfterRestart, has_two_copies_of_recovered_lines_again) {
    const auto [storage, engine] = GetParam();
    fail_storage(storage);
    restart();
    ASSERT_TRUE(until([&] { return single() == 0; }));
    EXPECT_TRUE(until([&] { return !membership().degraded; })) << "the next start needs only one engine";
    EXPECT_EQ(dirty(), kLines);
    lose(engine);
    expect_that_nothing_is_lost();
    if (storage == Storage::kHangs) return;
    heal_storage();
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(dirty(), 0u);
}

INSTANTIATE_TEST_SUITE_P(EachEngine, ClusterMirrorAfterRestart,
                         ::testing::Combine(::testing::Values(Storage::kRefuses, Storage::kHangs),
                                            ::testing::Values(size_t{0}, size_t{1})));

TEST_F(ClusterMirror, copies_lines_of_a_volume_that_is_not_open) {
    restart_target();
    ASSERT_TRUE(until([&] { return recovered() && target_->cache().info().absent.size() == 1; }));
    ASSERT_TRUE(until([&] { return single() == 0; }));
    lose(0);
    create("a", a_);
    attach("a", a_);
    expect_that_nothing_is_lost();
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
}

TEST_F(ClusterMirror, copies_lines_of_a_lost_engine_to_another_one) {
    start_third_engine();
    fail_storage(Storage::kRefuses);
    lose(0);
    EXPECT_TRUE(until([&] { return single() == 0; }));
    lose(1);
    expect_that_nothing_is_lost();
}

TEST_F(ClusterMirror, waits_for_an_engine_to_copy_to) {
    fail_storage(Storage::kHangs);
    lose(0);
    world_.run_for(from_s(10));
    EXPECT_EQ(single(), kLines);
    EXPECT_TRUE(membership().degraded);
    start_engine(engines_[0]);
    EXPECT_TRUE(until([&] { return single() == 0; }));
    lose(1);
    expect_that_nothing_is_lost();
}

// A command that holds such a line may wait hours for storage.
class ClusterMirrorBesideCommands : public ClusterMirror {
  protected:
    static constexpr uint64_t kWanted = 4;  // lines

    void hang_storage() { a_.faults.latency_min = a_.faults.latency_max = from_s(20); }
    void lose_the_first() {
        hang_storage();
        lose(0);
        ASSERT_EQ(single(), kLines);
    }
    void begin(Operation operation, uint64_t first, uint64_t count) {
        for (uint64_t i = 0; i < kWanted; ++i)
            ASSERT_TRUE(a_.client->begin(operation, i * kLine + first, count));
        world_.run_for(from_ms(1));
    }
    void expect_second_copies_without_storage() {
        EXPECT_TRUE(until([&] { return single() == 0; }, from_s(10)));
        EXPECT_GT(a_.client->under_way(), 0u) << "storage answered too early";
        lose(1);
        world_.run_for(from_s(1));
        EXPECT_EQ(target_->cache().info().volumes.at(1).lost_bytes, 0u);
        heal_storage();
        ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));  // with or without a timeout
        expect_that_nothing_is_lost();
    }
};

TEST_F(ClusterMirrorBesideCommands, copies_lines_whose_writes_wait_for_storage) {
    start_third_engine();
    lose_the_first();
    begin(Operation::kWrite, 0, kLine);
    expect_second_copies_without_storage();
}

TEST_F(ClusterMirrorBesideCommands, copies_lines_when_an_engine_joins_while_their_writes_wait_for_storage) {
    lose_the_first();
    begin(Operation::kWrite, 0, kLine);
    world_.run_for(from_s(5));
    start_engine(engines_[0]);
    expect_second_copies_without_storage();
}

TEST_F(ClusterMirrorBesideCommands, copies_lines_whose_writes_wait_behind_destaging) {
    hang_storage();
    ASSERT_TRUE(a_.client->begin(Operation::kFlush, 0, 0));
    world_.run_for(from_ms(10));
    begin(Operation::kWrite, 0, kLine);
    start_third_engine();
    lose(0);
    expect_second_copies_without_storage();
}

// Reads of sectors that no engine has, in dirty lines.
TEST_F(ClusterMirrorBesideCommands, copies_lines_whose_reads_wait_for_storage) {
    for (uint64_t i = kLines; i < kLines + kWanted; ++i)
        ASSERT_EQ(run(a_, Operation::kWrite, i * kLine, 8), Outcome::kOk);
    start_third_engine();
    hang_storage();
    lose(0);
    begin(Operation::kRead, kLines * kLine + 16, 8);
    expect_second_copies_without_storage();
}

TEST_F(ClusterMirrorBesideCommands, copies_a_line_whose_write_waits_for_the_following_line) {
    for (uint64_t i = kLines; i < kLines + 2; ++i)
        ASSERT_EQ(run(a_, Operation::kWrite, i * kLine, 8), Outcome::kOk);
    start_third_engine();
    hang_storage();
    ASSERT_TRUE(a_.client->begin(Operation::kRead, (kLines + 1) * kLine + 16, 8));
    world_.run_for(from_ms(1));
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, (kLines + 1) * kLine - 8, 16));
    world_.run_for(from_ms(1));
    lose(0);
    expect_second_copies_without_storage();
}

TEST_F(ClusterMirrorBesideCommands, copies_a_line_whose_write_waits_for_storage_of_another_line) {
    ASSERT_EQ(run(a_, Operation::kWrite, (kLines + 1) * kLine, 8), Outcome::kOk);
    start_third_engine();
    hang_storage();
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, (kLines + 1) * kLine - 12, 20));
    world_.run_for(from_ms(5));
    lose(0);
    expect_second_copies_without_storage();
}

// The engine's copies are as new as the second copies.
TEST_F(ClusterMirror, does_not_forget_an_engine_whose_lines_were_copied_again) {
    start_third_engine();
    fail_storage(Storage::kRefuses);
    const auto cut = [&](size_t engine) {
        const size_t before = target_->cache().info().engines.size();
        world_.cut(node_, *engines_[engine].node);
        ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == before - 1; }));
    };
    cut(0);
    ASSERT_TRUE(until([&] { return single() == 0 && !membership().degraded; }));
    lose(1);
    lose(2);
    EXPECT_EQ(target_->cache().info().volumes.at(1).lost_bytes, kLines * kLineBytes);
    heal_storage();
    world_.heal_all();
    EXPECT_TRUE(until([&] { return target_->cache().info().volumes.at(1).lost_bytes == 0; }));
    expect_that_nothing_is_lost();
}

// This happens in a rolling restart of the engines.
TEST_F(ClusterMirror, copies_from_an_engine_that_is_to_leave) {
    fail_storage(Storage::kHangs);
    lose(0);
    ASSERT_EQ(single(), kLines);
    ASSERT_TRUE(target_->cache().remove_engine(target_->cache().info().engines.at(0).index));
    start_engine(engines_[0]);
    EXPECT_TRUE(until([&] { return single() == 0; }));
    lose(1);
    expect_that_nothing_is_lost();
}

TEST_F(ClusterMirror, allows_a_restart_without_one_engine) {
    fail_storage(Storage::kRefuses);
    restart();
    ASSERT_TRUE(until([&] { return single() == 0 && !membership().degraded; }));
    kill_engine(engines_[1]);
    restart();
    expect_that_nothing_is_lost();
}

TEST_F(ClusterMirror, accepts_writes_to_copied_lines_without_storage) {
    fail_storage(Storage::kHangs);
    restart();
    ASSERT_TRUE(until([&] { return single() == 0; }));
    // A new line is used, as writes to lines with a request in storage wait for that request.
    EXPECT_EQ(run(a_, Operation::kWrite, kLines * kLine), Outcome::kOk);
    lose(0);
    EXPECT_EQ(run(a_, Operation::kRead, kLines * kLine), Outcome::kOk);
}

// Storage refuses a write that covers a dirty line and a part of a block that no engine has, while the
// membership cannot be saved. The copies of the line may differ. One copy is to be dropped once the
// membership records that.
class ClusterMirrorBesideRepair : public ClusterMirror {
  protected:
    void SetUp() override {
        ClusterMirror::SetUp();
        start_third_engine();
        fail_storage(Storage::kRefuses);
        membership_.full = true;
        ASSERT_TRUE(a_.client->begin(Operation::kWrite, kLines * kLine - 8, 12));
        world_.run_for(from_ms(200));
        ASSERT_EQ(a_.client->under_way(), 1u) << "it waits for the membership";
        lose(0);
        ASSERT_TRUE(until([&] { return single() == 0; }, from_s(20))) << "the line was copied meanwhile";
        world_.run_for(from_s(3));
        membership_.full = false;
        ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }, from_s(20)));
        world_.run_for(from_s(10));
        EXPECT_EQ(single(), 0u);
        ASSERT_FALSE(membership().degraded);
    }
};

TEST_F(ClusterMirrorBesideRepair, loses_no_copy_that_was_created_since) {
    lose(1);
    world_.run_for(from_s(1));
    EXPECT_EQ(target_->cache().info().volumes.at(1).lost_bytes, 0u);
    heal_storage();
    expect_that_nothing_is_lost();
}

TEST_F(ClusterMirrorBesideRepair, allows_a_restart_without_one_engine) {
    kill_engine(engines_[1]);
    heal_storage();
    restart();
    expect_that_nothing_is_lost();
}

// Storage accepts lines at every moment of the copying. Afterwards no copy may still be marked dirty, or a
// later start would destage it over newer data.
class ClusterMirrorOfShortLines : public ClusterMirror {
  protected:
    static constexpr uint64_t kShortLines = 16, kShort = 8;  // sectors of a line
    ClusterMirrorOfShortLines() {
        options_.line_bytes = kShort * io::SimDisk::kSector;
        options_.destage.retry_first = options_.destage.retry_max = from_us(10);
    }
    void SetUp() override {
        ClusterOperator::SetUp();
        create_under_write_back();
        options_.destage.age_max = {};  // applies to the next target
    }
    void write_all() {
        for (uint64_t i = 0; i < kShortLines; ++i)
            ASSERT_EQ(run(a_, Operation::kWrite, i * kShort, kShort), Outcome::kOk);
    }
    uint64_t used_slots() {
        uint64_t slots = 0;
        for (const auto& engine : target_->cache().info().engines) slots += engine.used_slots;
        return slots;
    }
};

class ClusterMirrorBesideDestaging : public ClusterMirrorOfShortLines,
                                     public ::testing::WithParamInterface<int64_t> {
  protected:
    void come_home_beside_copying() {
        write_all();
        fail_storage(Storage::kRefuses);
        restart();
        ASSERT_TRUE(until([&] { return used_slots() > kShortLines; })) << "no copy has begun";
        heal_storage();
        a_.faults.latency_min = from_us(GetParam());
        a_.faults.latency_max = from_us(2 * GetParam());
        ASSERT_TRUE(until([&] { return dirty() == 0; }));
    }
};

TEST_P(ClusterMirrorBesideDestaging, leaves_no_copy_that_is_marked_dirty) {
    come_home_beside_copying();
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    // All copies are checked, as the membership records that the volume may have dirty lines.
    fail_storage(Storage::kRefuses);
    restart();
    EXPECT_EQ(dirty(), 0u);
    heal_storage();
    for (uint64_t i = 0; i < kShortLines; ++i)
        EXPECT_EQ(run(a_, Operation::kRead, i * kShort, kShort), Outcome::kOk);
}

TEST_P(ClusterMirrorBesideDestaging, leaves_no_copy_that_is_marked_dirty_when_the_last_line_is_clean) {
    come_home_beside_copying();
    fail_storage(Storage::kRefuses);
    restart_target_alone();
    create("a", a_);
    ASSERT_TRUE(until([&] { return !target_->cache().recovering() && a_.client->live(); }));
    EXPECT_EQ(dirty(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Storage, ClusterMirrorBesideDestaging,
                         ::testing::Range(int64_t{0}, int64_t{200}, 10));

// Engine, time of its loss in µs, crash or stop, and whether storage accepts lines meanwhile.
class ClusterMirrorLosses : public ClusterMirrorOfShortLines,
                            public ::testing::WithParamInterface<std::tuple<size_t, int64_t, bool, bool>> {};

TEST_P(ClusterMirrorLosses, at_any_time_during_the_copying_leave_no_line_dirty) {
    const auto [engine, at, crashes, takes] = GetParam();
    write_all();
    fail_storage(Storage::kRefuses);
    restart();
    ASSERT_TRUE(until([&] { return used_slots() > kShortLines; })) << "no copy has begun";
    if (takes) heal_storage();
    world_.run_for(from_us(at));
    const size_t before = target_->cache().info().engines.size();
    crashes ? kill_engine(engines_[engine]) : engines_[engine].process->stop();
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == before - 1; }));
    world_.run_for(from_ms(1));
    heal_storage();
    if (!crashes) retire(std::move(engines_[engine].process));
    start_engine(engines_[engine]);
    ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    // Some lines may be lost, as they had no second copy yet.
    (void)give_up("a");
    ASSERT_TRUE(until([&] { return dirty() == 0; }));
    EXPECT_EQ(single(), 0u);
    EXPECT_TRUE(until([&] { return !membership().degraded; }));
    a_.shared.model.crash();
    write_all();
    fail_storage(Storage::kRefuses);
    restart();
    for (uint64_t i = 0; i < kShortLines; ++i)
        EXPECT_EQ(run(a_, Operation::kRead, i * kShort, kShort), Outcome::kOk);
}

INSTANTIATE_TEST_SUITE_P(Moments, ClusterMirrorLosses,
                         ::testing::Combine(::testing::Values(size_t{0}, size_t{1}),
                                            ::testing::Range(int64_t{0}, int64_t{1200}, 100),
                                            ::testing::Bool(), ::testing::Bool()));

}  // namespace
}  // namespace wss::sim
