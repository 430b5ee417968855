// SPDX-License-Identifier: Apache-2.0
// Storage processes that had the disk later than the one that served the volume.
#include "tests/sim/tests/two_processes.h"

namespace wss::sim {
namespace {

using initiator::Operation;
using initiator::Outcome;

// The other process had the disk later than the last one, but does not follow it: a third party may have had
// the disk in between, and may have written it.
class WithABrokenChain : public WithTwoProcesses {
  protected:
    void SetUp() override {
        WithTwoProcesses::SetUp();
        other_disk_.succeed(holder(2, 2));
    }
    void leave_dirty() {
        start_engines(2);
        reconnect_first();
        set_policy(cache::Policy::kBack);
        fill_all();
        disk_.refuse(true);
        ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        ASSERT_GT(dirty(), 0u);
    }
    void expect_lost_untouched() {
        expect_lost();
        EXPECT_EQ(other_disk_.writes(), 0u) << "the later process does not follow the last one";
    }
    // Engines neither serve hits nor acknowledge writes.
    void expect_suspended() {
        EXPECT_NE(run(0, Operation::kRead, 8), Outcome::kOk);
        EXPECT_NE(run(1, Operation::kWrite, 8), Outcome::kOk);
    }
};

TEST_F(WithABrokenChain, a_later_process_gets_no_dirty_lines_from_a_restarted_target) {
    crash_target_with_dirty_lines();
    disk_.refuse(false);
    world_.cut(node_, storage_node_);
    start_other_storage_alone();
    restart_target();
    ASSERT_TRUE(await(1));
    world_.run_for(from_s(1));
    world_.heal_all();
    ASSERT_TRUE(await(2));
    expect_lost_untouched();
}

TEST_F(WithABrokenChain, a_later_process_gets_no_dirty_lines_while_the_last_one_is_briefly_disconnected) {
    leave_dirty();
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(await(0));
    start_other_storage_alone();
    ASSERT_TRUE(await(1));
    world_.run_for(from_s(1));
    world_.heal_all();
    ASSERT_TRUE(await(2));
    expect_lost_untouched();
}

TEST_F(WithABrokenChain, a_later_process_gets_no_dirty_lines_while_the_last_one_is_cut_off_from_its_disk) {
    crash_target_with_dirty_lines();
    disk_.refuse(false);
    disk_.suspend(true);
    start_other_storage_alone();
    restart_target();
    expect_lost_untouched();
}

// The last process is cut off from its disk, and would never report the loss.
TEST_F(WithABrokenChain, a_volume_is_lost_soon_after_a_later_process_joins) {
    start_engines(2);
    reconnect_first();
    fill_all();
    faults_.silent_end = UINT64_MAX;
    ASSERT_TRUE(clients_[0]->begin(Operation::kWrite, 0, 128));
    world_.run_for(from_s(1));
    start_other_storage_alone();
    ASSERT_TRUE(world_.run_until([&] { return clients_[0]->under_way() == 0; }, from_s(5)));
    EXPECT_NE(clients_[0]->last_outcome(), Outcome::kOk);
    world_.run_for(from_s(1));
    expect_suspended();
    EXPECT_NE(trouble().find("others may have written it in between"), std::string::npos) << trouble();
    EXPECT_EQ(other_disk_.writes(), 0u);
}

TEST_F(WithABrokenChain, a_volume_with_dirty_lines_is_lost_soon_after_a_later_process_joins) {
    leave_dirty();
    start_other_storage_alone();
    world_.run_for(from_s(4));
    expect_suspended();
    EXPECT_NE(trouble().find("others may have written it in between"), std::string::npos) << trouble();
    expect_lost_untouched();
}

// The target closes no connection: the last process may serve other volumes.
TEST_F(WithABrokenChain, the_last_process_keeps_its_connection) {
    leave_dirty();
    start_other_storage_alone();
    ASSERT_TRUE(await(2));
    world_.run_for(from_s(4));
    EXPECT_EQ(connected(), 2u);
    expect_lost_untouched();
}

TEST_F(WithABrokenChain, a_later_process_gets_no_dirty_lines_of_one_that_was_killed) {
    leave_dirty();
    storage_node_.crash();
    retire(std::move(storage_));
    ASSERT_TRUE(await(0));
    world_.run_for(from_s(10));
    start_other_storage_alone();
    expect_lost_untouched();
}

// Initiators may use data of the volume that a third party has changed.
TEST_F(WithABrokenChain, a_volume_without_dirty_lines_is_lost_too) {
    replace_first_without_dirty_lines();
    expect_suspended();
    EXPECT_NE(trouble().find("others may have written it in between"), std::string::npos) << trouble();
}

TEST_F(WithABrokenChain, a_restarted_target_without_dirty_lines_uses_the_later_process) {
    start_engines(2);
    reconnect_first();
    storage_node_.crash();
    retire(std::move(storage_));
    start_other_storage_alone();
    restart_target();
    ASSERT_TRUE(await(1));
    EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    EXPECT_EQ(trouble(), "");
}

// Both processes have the same --join, and the chain has no gap. A process with another --join was in
// between, and initiators may use data that it has changed.
TEST_F(WithTwoProcesses, a_volume_without_dirty_lines_is_lost_if_another_owner_was_in_the_chain) {
    other_disk_.succeed(holder(3));
    other_disk_.change_hands();
    replace_first_without_dirty_lines();
    EXPECT_NE(run(0, Operation::kRead, 8), Outcome::kOk);
    world_.run_for(cache::RemoteQueue::kTakenMax + from_s(5));
    EXPECT_NE(run(0, Operation::kWrite, 8), Outcome::kOk);
    EXPECT_EQ(other_disk_.writes(), 0u);
}

// The last process runs, and has not noticed that its disk was taken. The later process is gone.
class WithTheLaterProcessGone : public WithABrokenChain {
  protected:
    void SetUp() override {
        WithABrokenChain::SetUp();
        start_engines(2);
        reconnect_first();
        start_other_storage_alone();
        ASSERT_TRUE(await(2));
        world_.run_for(from_s(1));
        other_node_->crash();
        retire(std::move(other_));
        ASSERT_TRUE(await(1));
    }
};

TEST_F(WithTheLaterProcessGone, a_volume_is_not_reopened_with_the_last_process) {
    EXPECT_EQ(give_up_for_a_reopening().code(), Code::kRefused);
}

TEST_F(WithTheLaterProcessGone, a_restarted_target_does_not_use_the_last_process) {
    restart_target();
    ASSERT_TRUE(await(1));
    EXPECT_NE(run(0, Operation::kWrite), Outcome::kOk);
    EXPECT_EQ(disk_.writes(), 0u);
    EXPECT_NE(trouble().find("another process took it"), std::string::npos) << trouble();
}

// The process that took the disk from the last one has lost it since.
class WithTheSuccessorLost : public WithABrokenChain {
  protected:
    void SetUp() override {
        WithABrokenChain::SetUp();
        other_disk_.succeed(holder(2));
        other_disk_.take_away();
    }
};

TEST_F(WithTheSuccessorLost, engines_serve_nothing_while_the_last_process_is_cut_off_from_its_disk) {
    crash_target_with_dirty_lines();
    disk_.refuse(false);
    disk_.suspend(true);
    start_other_storage_alone();
    restart_target();
    ASSERT_TRUE(await(2));
    ASSERT_TRUE(until([&] { return dirty() > 0; }));
    expect_suspended();
    expect_lost();
}

TEST_F(WithTheSuccessorLost, engines_serve_nothing_while_the_last_process_is_away) {
    leave_dirty();
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(await(0));
    start_other_storage_alone();
    ASSERT_TRUE(await(1));
    world_.run_for(from_s(1));
    expect_suspended();
    expect_lost();
}

TEST_F(WithTheSuccessorLost, a_volume_continues_with_the_process_that_took_the_disk_from_it) {
    third_disk_.succeed(holder(3));
    leave_dirty();
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(await(0));
    start_other_storage_alone();
    ASSERT_TRUE(await(1));
    world_.run_for(from_s(5));
    start_third_storage();
    EXPECT_TRUE(until([&] { return dirty() == 0; }));
    EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    EXPECT_GT(third_disk_.writes(), 0u);
}

// The process that took the disk from the last one belongs to another owner, which has returned the disk.
TEST_F(WithTheSuccessorLost, a_volume_continues_with_the_next_successor_if_the_lost_one_had_another_owner) {
    other_disk_.change_hands();
    third_disk_.succeed(holder(3));
    leave_dirty();
    storage_node_.crash();
    retire(std::move(storage_));
    start_other_storage_alone();
    world_.run_for(from_s(5));
    expect_suspended();
    start_third_storage();
    EXPECT_TRUE(until([&] { return dirty() == 0; }));
    EXPECT_EQ(trouble(), "");
}

TEST_F(WithTheSuccessorLost, a_volume_is_lost_if_the_process_after_it_does_not_follow_it_and_joins_first) {
    third_disk_.succeed(holder(3, 3));
    leave_dirty();
    storage_node_.crash();
    retire(std::move(storage_));
    ASSERT_TRUE(await(0));
    start_third_storage();
    ASSERT_TRUE(await(1));
    start_other_storage_alone();
    expect_lost();
    EXPECT_EQ(third_disk_.writes(), 0u);
}

// The successor has not noticed that it lost the disk. The third process does not follow it.
TEST_F(WithTheSuccessorLost, a_volume_is_lost_even_if_the_successor_has_not_noticed_its_loss) {
    other_disk_.give_back();
    third_disk_.succeed(holder(3, 3));
    leave_dirty();
    storage_node_.crash();
    retire(std::move(storage_));
    ASSERT_TRUE(await(0));
    start_third_storage();
    ASSERT_TRUE(await(1));
    start_other_storage_alone();
    expect_lost();
    EXPECT_EQ(third_disk_.writes() + other_disk_.writes(), 0u);
}

// The operator has moved the volume to storage without holders, and starts a process of the former storage.
TEST_F(WithTwoProcesses, a_process_is_not_replaced_by_one_with_the_former_storage_of_the_volume) {
    disk_.succeed(holder(1));
    start_engines(2);
    reconnect_first();
    storage_node_.crash();
    retire(std::move(storage_));
    ASSERT_TRUE(await(0));
    other_disk_.succeed({});
    other_disk_.forget_owners();
    start_other_storage_alone();
    ASSERT_TRUE(await(1));
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(0, Operation::kFlush), Outcome::kOk);
    third_disk_.succeed(holder(2, 2));
    start_third_storage();
    ASSERT_TRUE(await(2));
    world_.run_for(from_s(5));
    EXPECT_EQ(trouble(), "");
    EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    EXPECT_EQ(third_disk_.writes(), 0u);
}

TEST_F(WithTwoProcesses, dirty_lines_for_storage_without_an_owner_are_not_destaged_to_storage_that_has_one) {
    disk_.forget_owners();
    reconnect_first();
    crash_target_with_dirty_lines();
    disk_.refuse(false);
    storage_node_.crash();
    retire(std::move(storage_));
    start_other_storage_alone();
    restart_target();
    world_.run_for(from_s(8));
    EXPECT_EQ(other_disk_.writes(), 0u);
    EXPECT_NE(trouble().find("another owner"), std::string::npos) << trouble();
}

TEST_F(WithABrokenChain,
       engines_serve_nothing_when_a_later_process_has_lost_the_disk_and_the_last_one_is_away) {
    leave_dirty();
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(await(0));
    other_disk_.take_away();
    start_other_storage_alone();
    ASSERT_TRUE(await(1));
    world_.run_for(from_s(1));
    expect_suspended();
}

}  // namespace
}  // namespace wss::sim
