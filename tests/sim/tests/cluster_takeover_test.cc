// SPDX-License-Identifier: Apache-2.0
// Step-by-step tests of real storage on another node that one process takes over from another.
#include "tests/sim/tests/storage_elsewhere.h"

namespace wss::sim {
namespace {

using initiator::Operation;
using initiator::Outcome;

// Two processes of one chain of successors, like Ceph's storage processes with the same --join.
class AfterATakeover : public WithStorageElsewhere {
  protected:
    static constexpr io::Succession kFirst = holder(1), kSecond = holder(2);
    // The first process serves the volume, and its disk lacks the engines' dirty data.
    void serve(io::Succession second = kSecond) {
        disk_.succeed(kFirst);
        other_disk_.succeed(second);
        start_engines(2);
        set_policy(cache::Policy::kBack);
        disk_.refuse(true);
        world_.run_for(from_s(1));  // the report arrives
        ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        ASSERT_GT(dirty(), 0u);
    }
    void lose() {
        disk_.refuse(false);
        disk_.take_away();
    }
    void expect_home() {
        EXPECT_TRUE(until([&] { return dirty() == 0; }));
        EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
        EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        EXPECT_EQ(run(1, Operation::kFlush), Outcome::kOk);
        EXPECT_TRUE(cache::Membership::parse(membership_.text)->storage_lost.empty());
    }
};

TEST_F(AfterATakeover, a_volume_continues_with_the_process_that_took_its_disk_and_joined_earlier) {
    serve();
    start_other_storage();
    lose();
    expect_home();
}

TEST_F(AfterATakeover, a_volume_waits_for_the_process_that_took_its_disk) {
    serve();
    lose();
    world_.run_for(from_s(3));
    EXPECT_GT(dirty(), 0u);
    EXPECT_EQ(run(0, Operation::kRead, 8), Outcome::kMediumError) << "others may have written it";
    start_other_storage();
    expect_home();
}

TEST_F(AfterATakeover, commands_that_the_former_process_failed_are_completed_by_the_one_that_took_its_disk) {
    disk_.succeed(kFirst);
    other_disk_.succeed(kSecond);
    world_.run_for(from_s(1));  // the report arrives
    start_other_storage();
    for (uint64_t at = 128; at < 1024; at += 128) clients_[0]->begin(Operation::kWrite, at, 128);
    disk_.take_away();
    ASSERT_TRUE(until([&] { return clients_[0]->under_way() == 0; }));
    EXPECT_EQ(clients_[0]->last_outcome(), Outcome::kOk);
}

TEST_F(AfterATakeover, a_restarted_target_accepts_the_process_that_took_the_disk_from_the_last_one) {
    disk_.succeed(kFirst);
    other_disk_.succeed(kSecond);
    crash_target_with_dirty_lines();
    lose();
    restart_target();
    ASSERT_TRUE(until([&] { return joined(); }));
    world_.run_for(from_s(1));
    start_other_storage();
    expect_home();
}

TEST_F(AfterATakeover, flushes_do_not_fail_for_lines_that_the_former_process_did_not_destage) {
    disk_.succeed(kFirst);
    other_disk_.succeed(kSecond);
    start_engines(2);
    set_policy(cache::Policy::kBack);
    start_other_storage();
    world_.run_for(from_s(1));  // the report arrives
    for (uint64_t at = 0; at < 4096; at += 128) {
        ASSERT_TRUE(clients_[0]->begin(Operation::kWrite, at, 128));
        ASSERT_TRUE(until([&] { return clients_[0]->under_way() == 0; }));
    }
    ASSERT_TRUE(clients_[0]->begin(Operation::kFlush, 0, 0));
    world_.run_for(from_us(60));
    ASSERT_GT(dirty(), 0u) << "not yet destaged";
    disk_.take_away();
    ASSERT_TRUE(until([&] { return clients_[0]->under_way() == 0; }));
    EXPECT_EQ(clients_[0]->last_outcome(), Outcome::kOk);
    EXPECT_TRUE(until([&] { return dirty() == 0; }));
}

TEST_F(AfterATakeover, a_volume_waits_until_the_process_that_took_its_disk_can_serve_it) {
    serve();
    other_disk_.suspend(true);
    start_other_storage();
    lose();
    world_.run_for(cache::RemoteQueue::kTakenMax + from_s(3));
    EXPECT_GT(dirty(), 0u);
    other_disk_.suspend(false);
    expect_home();
}

// An operator changes rs:NAME in the configuration to the image itself.
TEST_F(AfterATakeover, a_target_does_not_destage_lines_for_a_storage_process_to_storage_of_its_own) {
    crash_target_with_dirty_lines();
    disk_.refuse(false);
    storage_node_.crash();
    retire(std::move(storage_));
    retire(std::move(target_));
    node_.restart();
    const uint64_t writes = disk_.writes();
    target_ = std::make_unique<ClusterTarget>(node_, network_, network_, disk_, membership_, options_);
    target_->start();
    ASSERT_TRUE(until([&] { return !target_->status(); }));
    EXPECT_EQ(target_->status().code(), Code::kRefused);
    EXPECT_NE(target_->status().text().find("for a storage process"), std::string::npos);
    EXPECT_EQ(disk_.writes(), writes);
    storage_node_.restart();
    restart_target();
    start_storage();
    EXPECT_TRUE(until([&] { return dirty() == 0; }));
}

// The target opens its other volumes slowly. No process can join before that ends.
class SlowStart : public AfterATakeover {
  protected:
    void restart_target_in(Nanoseconds opening) {
        node_.crash();
        retire(std::move(target_));
        node_.restart();
        target_ = std::make_unique<ClusterTarget>(node_, network_, network_, disk_, membership_, options_,
                                                  kSectors * io::SimDisk::kSector);
        target_->open_slowly(opening);
        target_->start();
        ASSERT_TRUE(world_.run_until([&] { return target_->started(); }, opening + from_s(10)));
    }
};

TEST_F(SlowStart, does_not_shorten_the_wait_for_a_successor) {
    serve();
    lose();
    world_.run_for(from_s(3));
    storage_node_.crash();
    retire(std::move(storage_));
    start_other_storage_alone();
    restart_target_in(cache::RemoteQueue::kTakenMax + from_s(2));
    world_.run_for(from_s(20));  // initiators need this time, because their connections were lost for minutes
    expect_home();
}

TEST_F(SlowStart, does_not_shorten_the_wait_for_the_last_process) {
    disk_.succeed(kFirst);
    other_disk_.succeed(kOfAnotherSeries);
    crash_target_with_dirty_lines();
    lose();
    start_other_storage_alone();
    world_.cut(node_, storage_node_);
    restart_target_in(cache::RemoteQueue::kLastMax + from_s(1));
    world_.run_for(from_ms(500));
    world_.heal_all();
    expect_lost();
}

// The process that reported the loss is gone, and the other owner has returned the disk.
class ReportBeforeRestart : public AfterATakeover {
  protected:
    void report_and_restart(const std::function<void()>& stop_target) {
        serve();
        lose();
        world_.run_for(from_s(3));
        stop_target();
        storage_node_.crash();
        retire(std::move(storage_));
        disk_.give_back();
        disk_.succeed(holder(3, 3));
        restart_target();
        storage_node_.restart();
        start_storage();
    }
};

TEST_F(ReportBeforeRestart, of_a_loss_remains_valid_if_the_target_is_killed) {
    report_and_restart([] {});
    expect_lost();
}

TEST_F(ReportBeforeRestart, of_a_loss_remains_valid_if_the_target_is_stopped) {
    report_and_restart([this] {
        target_->stop(from_s(2));
        world_.run_for(from_s(5));
    });
    expect_lost();
}

TEST_F(ReportBeforeRestart, does_not_exclude_the_process_that_took_the_disk_from_the_last_one) {
    serve();
    lose();
    world_.run_for(from_s(3));
    storage_node_.crash();
    retire(std::move(storage_));
    restart_target();
    start_other_storage();
    expect_home();
}

// The owner in between need not be a target, and it leaves no trace.
TEST_F(AfterATakeover, a_volume_is_lost_if_another_owner_may_have_had_the_disk_in_between) {
    serve(holder(3, 3));
    start_other_storage();
    lose();
    expect_lost();
}

// The process with place 2 took the disk, but failed or was killed before it joined.
TEST_F(AfterATakeover, a_volume_continues_with_a_process_that_took_its_disk_from_one_that_never_joined) {
    constexpr io::Succession kThird = holder(3);
    serve(kThird);
    lose();
    world_.run_for(from_s(3));
    start_other_storage();
    expect_home();
}

TEST_F(AfterATakeover, a_volume_does_not_return_to_a_process_that_preceded_the_one_that_lost_its_disk) {
    disk_.succeed(kSecond);
    other_disk_.succeed(kFirst);
    crash_target_with_dirty_lines();
    lose();
    restart_target();
    ASSERT_TRUE(until([&] { return joined(); }));
    start_other_storage();
    expect_lost();
}

// The other process may have got the disk from an unknown owner before the last process had it.
TEST_F(AfterATakeover, a_restarted_target_prefers_the_last_process_to_others_that_have_joined) {
    disk_.succeed(kFirst);
    other_disk_.succeed(kOfAnotherSeries);
    crash_target_with_dirty_lines();
    lose();
    start_other_storage_alone();
    restart_target();
    expect_lost();
}

TEST_F(AfterATakeover, a_volume_is_lost_if_the_process_that_took_its_disk_belongs_to_another_owner) {
    serve();
    other_disk_.change_hands();
    lose();
    start_other_storage();
    expect_lost();
}

TEST_F(AfterATakeover, a_volume_is_lost_if_no_process_reports_that_it_took_its_disk) {
    serve();
    lose();
    expect_lost();
}

}  // namespace
}  // namespace wss::sim
