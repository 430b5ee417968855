// SPDX-License-Identifier: Apache-2.0
// Storage processes that served a volume before the last one, and have not noticed that their disk was taken.
#include "tests/sim/tests/two_processes.h"

namespace wss::sim {
namespace {

using initiator::Operation;
using initiator::Outcome;

TEST_F(WithTwoProcesses, a_restarted_target_prefers_the_last_process_even_if_it_joins_later) {
    crash_target_with_dirty_lines();
    disk_.refuse(false);
    world_.cut(node_, storage_node_);
    start_other_storage_alone();
    restart_target();
    ASSERT_TRUE(await(1));
    world_.heal_all();
    ASSERT_TRUE(await(2));
    world_.run_for(from_ms(300));
    disk_.take_away();
    world_.run_for(from_s(5));
    EXPECT_EQ(other_disk_.writes(), 0u) << "the other process does not follow the last one";
}

TEST_F(WithTwoProcesses, a_restarted_target_waits_for_the_last_process_while_that_is_cut_off_from_its_disk) {
    crash_target_with_dirty_lines();
    disk_.refuse(false);
    disk_.suspend(true);
    start_other_storage_alone();
    restart_target();
    ASSERT_TRUE(await(2));
    world_.run_for(from_ms(300));
    disk_.take_away();
    world_.run_for(from_s(5));
    EXPECT_EQ(other_disk_.writes(), 0u) << "the other process does not follow the last one";
}

// The other process served the volume last when the target crashed, and is cut off from the target.
class AfterACrash : public WithTwoProcesses {
  protected:
    void SetUp() override {
        WithTwoProcesses::SetUp();
        serve_from_other();
        node_.crash();
        world_.heal_all();
        world_.cut(node_, *other_node_);
        other_disk_.refuse(false);
    }
    void expect_served_when_the_other_returns() {
        world_.heal_all();
        ASSERT_TRUE(await(2));
        world_.run_for(from_ms(300));
        disk_.take_away();
        expect_served_by_other();
    }
};

TEST_F(AfterACrash, a_restarted_target_does_not_use_a_former_process_that_joins_before_the_last_one) {
    restart_target();
    ASSERT_TRUE(await(1));
    expect_served_when_the_other_returns();
}

TEST_F(AfterACrash, a_restarted_target_gives_the_last_process_time_from_the_offer_of_a_former_one) {
    world_.cut(node_, storage_node_);
    restart_target();
    world_.run_for(from_s(10));
    world_.heal(node_, storage_node_);
    ASSERT_TRUE(await(1));
    expect_served_when_the_other_returns();
}

TEST_F(AfterACrash, a_restarted_target_gives_the_last_process_time_until_a_former_one_is_usable) {
    disk_.suspend(true);
    restart_target();
    ASSERT_TRUE(await(1));
    world_.run_for(from_s(10));
    disk_.suspend(false);
    world_.run_for(from_ms(500));
    expect_served_when_the_other_returns();
}

TEST_F(WithTwoProcesses, a_target_does_not_use_a_former_process_while_the_last_one_is_disconnected) {
    serve_from_other();
    world_.heal_all();
    ASSERT_TRUE(await(2));
    world_.cut(node_, *other_node_);
    ASSERT_TRUE(await(1));
    other_disk_.refuse(false);
    world_.run_for(from_ms(200));
    world_.heal_all();
    disk_.take_away();
    ASSERT_TRUE(await(2));
    expect_served_by_other();
}

TEST_F(WithTwoProcesses, writes_wait_for_the_last_process_after_it_was_disconnected) {
    start_engines(2);
    set_policy(cache::Policy::kBack);
    reconnect_first();
    start_other_storage_alone();
    world_.cut(node_, *other_node_);
    ASSERT_TRUE(await(1));
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(await(0));
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk) << "engines acknowledge it";
    disk_.take_away();
    world_.heal(node_, *other_node_);
    ASSERT_TRUE(await(1));
    world_.run_for(from_ms(300));
    world_.heal_all();
    ASSERT_TRUE(await(2));
    world_.run_for(from_s(5));
    EXPECT_EQ(other_disk_.writes(), 0u) << "the other process does not follow the last one";
}

// The other process served the volume before the first one took its disk, and is cut off from the disk.
class WithAProcessCutOff : public WithTwoProcesses {
  protected:
    void SetUp() override {
        WithTwoProcesses::SetUp();
        disk_.succeed(holder(2));
        other_disk_.succeed(holder(1));
    }
    void serve() {
        start_engines(2);
        reconnect_first();
        other_disk_.suspend(true);
        other_disk_.refuse(true);
        start_other_storage_alone();
        ASSERT_TRUE(await(2));
        ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        ASSERT_EQ(run(0, Operation::kFlush), Outcome::kOk);
        ASSERT_TRUE(until([&] { return dirty() == 0; }));
    }
    void leave_dirty() {
        set_policy(cache::Policy::kBack);
        disk_.refuse(true);
        world_.run_for(from_s(1));
        ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        ASSERT_GT(dirty(), 0u);
    }
    void end_first(size_t left = 1) {
        storage_node_.crash();
        retire(std::move(storage_));
        ASSERT_TRUE(await(left));
    }
    void start_first(io::Succession succession, size_t all = 2) {
        disk_.succeed(succession);
        storage_node_.restart();
        start_storage();
        ASSERT_TRUE(await(all));
        world_.run_for(from_s(2));
    }
    void expect_served() {
        EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        other_disk_.take_away();
        world_.run_for(cache::RemoteQueue::kTakenMax + from_s(5));
        EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        EXPECT_TRUE(until([&] { return dirty() == 0; }));
    }
};

TEST_F(WithAProcessCutOff, a_former_process_does_not_replace_one_that_was_killed_and_restarted) {
    serve();
    end_first();
    start_first(holder(3));
    expect_served();
}

TEST_F(WithAProcessCutOff, a_former_process_is_not_used_by_a_restarted_target) {
    serve();
    world_.cut(node_, storage_node_);
    restart_target();
    ASSERT_TRUE(await(1));
    world_.run_for(from_ms(500));
    world_.heal_all();
    ASSERT_TRUE(await(2));
    world_.run_for(from_s(2));
    expect_served();
}

TEST_F(WithAProcessCutOff, a_former_process_is_not_used_by_a_target_that_restarts_before_the_last_process) {
    for (const cache::Policy policy : {cache::Policy::kThrough, cache::Policy::kBack}) {
        SCOPED_TRACE(std::string(cache::to_string(policy)));
        if (policy == cache::Policy::kThrough)
            serve();
        else
            leave_dirty();
        end_first();
        other_disk_.suspend(false);
        node_.crash();
        restart_target();
        ASSERT_TRUE(await(1));
        world_.run_for(from_s(1));
        disk_.refuse(false);
        start_first(policy == cache::Policy::kThrough ? holder(3) : holder(4));
        EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        EXPECT_TRUE(until([&] { return dirty() == 0; }));
        EXPECT_EQ(other_->engine().counters().storage_errors, 0u);
    }
    expect_served();
}

TEST_F(WithAProcessCutOff, a_former_process_that_has_not_detected_its_loss_receives_no_writes) {
    serve();
    other_disk_.suspend(false);
    leave_dirty();
    end_first();
    world_.run_for(from_s(6));
    disk_.refuse(false);
    start_first(holder(3));
    expect_served();
    EXPECT_EQ(other_disk_.writes(), 0u);
}

TEST_F(WithAProcessCutOff,
       a_process_that_has_not_detected_the_loss_of_its_disk_is_replaced_by_the_one_that_took_it) {
    disk_.succeed(holder(1));
    other_disk_.succeed(holder(2));
    start_engines(2);
    reconnect_first();
    disk_.refuse(true);
    start_other_storage_alone();
    ASSERT_TRUE(await(2));
    world_.run_for(from_s(1));
    EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    EXPECT_GT(other_disk_.writes(), 0u);
}

TEST_F(WithTwoProcesses, a_restarted_target_serves_nothing_while_the_last_process_is_cut_off_from_its_disk) {
    crash_target_with_dirty_lines();
    disk_.refuse(false);
    disk_.suspend(true);
    restart_target();
    ASSERT_TRUE(await(1));
    ASSERT_TRUE(until([&] { return dirty() > 0; })) << "the restarted target finds the dirty lines";
    EXPECT_EQ(run(0, Operation::kRead, 8), Outcome::kMediumError);
    EXPECT_EQ(run(1, Operation::kWrite, 8), Outcome::kMediumError);
    disk_.suspend(false);
    EXPECT_TRUE(until([&] { return dirty() == 0; }));
}

TEST_F(WithAProcessCutOff, a_former_process_does_not_replace_one_that_is_disconnected) {
    serve();
    end_first();
    start_first(holder(3));
    set_policy(cache::Policy::kBack);
    disk_.refuse(true);
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    ASSERT_GT(dirty(), 0u);
    other_disk_.suspend(false);
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(await(1));
    world_.run_for(from_s(6));
    disk_.refuse(false);
    world_.heal_all();
    ASSERT_TRUE(await(2));
    world_.run_for(from_s(1));
    expect_served();
    EXPECT_EQ(other_->engine().counters().storage_errors, 0u);
}

TEST_F(WithAProcessCutOff, a_former_process_does_not_prevent_hits_while_the_last_one_is_away) {
    serve();
    fill_all();
    end_first();
    world_.run_for(from_s(6));
    EXPECT_EQ(run(0, Operation::kRead, 8), Outcome::kOk);
}

TEST_F(WithAProcessCutOff, requests_at_a_process_that_is_replaced_are_repeated) {
    disk_.succeed(holder(1));
    other_disk_.succeed(holder(2));
    start_engines(2);
    reconnect_first();
    faults_.silent_end = UINT64_MAX;
    ASSERT_TRUE(clients_[0]->begin(Operation::kWrite, 0, 128));
    world_.run_for(from_s(1));
    start_other_storage_alone();
    ASSERT_TRUE(until([&] { return clients_[0]->under_way() == 0; }));
    EXPECT_EQ(clients_[0]->last_outcome(), Outcome::kOk);
    EXPECT_GT(other_disk_.writes(), 0u);
}

// The first write is being destaged to a disk that does not answer.
TEST_F(WithTwoProcesses, engines_do_not_acknowledge_a_waiting_write_after_the_disk_was_cut_off) {
    start_engines(2);
    set_policy(cache::Policy::kBack);
    faults_.silent = from_s(8);
    faults_.silent_end = UINT64_MAX;
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    ASSERT_TRUE(clients_[0]->begin(Operation::kFlush, 0, 0));
    world_.run_for(from_s(1));
    ASSERT_TRUE(clients_[1]->begin(Operation::kWrite, 0, 128));
    world_.run_for(from_s(2));
    ASSERT_EQ(clients_[1]->under_way(), 1u);
    disk_.suspend(true);
    world_.run_for(from_s(2));
    faults_.silent_end = 0;
    disk_.refuse(true);
    EXPECT_TRUE(world_.run_until([&] { return clients_[1]->under_way() == 0; }, from_s(120)));
    EXPECT_NE(clients_[1]->last_outcome(), Outcome::kOk);
}

// The disk of the last process became smaller while the process was away. The other process had the disk
// before, and has not noticed that it lost it.
class WithADiskShrunkWhileAway : public WithAProcessCutOff {
  protected:
    static constexpr uint64_t kLeft = kSectors / 2 * io::SimDisk::kSector;

    void serve_beside_former() {
        start_engines(2);
        reconnect_first();
        other_disk_.refuse(true);
        start_other_storage_alone();
        ASSERT_TRUE(await(2));
        ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        ASSERT_EQ(run(0, Operation::kFlush), Outcome::kOk);
    }
    void shrink_while_away() {
        const size_t count = connected();
        world_.cut(node_, storage_node_);
        ASSERT_TRUE(await(count - 1));
        disk_.shrink(kLeft);
        world_.run_for(from_s(1));
        world_.heal_all();
        ASSERT_TRUE(await(count));
        world_.run_for(from_s(6));
    }
    void expect_served_after_a_resize() {
        const std::string trouble = target_->volumes().list().at(0).trouble;
        EXPECT_NE(trouble.find("serves what is left"), std::string::npos) << trouble;
        std::optional<Status> resized;
        target_->resize_volume("disk", kLeft, [&](const Status& status) { resized = status; });
        ASSERT_TRUE(until([&] { return resized.has_value(); }));
        EXPECT_TRUE(*resized) << resized->to_string();
        world_.run_for(from_s(1));
        EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        EXPECT_EQ(run(0, Operation::kFlush), Outcome::kOk);
        EXPECT_EQ(other_disk_.writes(), 0u);
    }
};

TEST_F(WithADiskShrunkWhileAway, a_former_process_that_is_cut_off_does_not_prevent_a_resize_of_the_volume) {
    serve_beside_former();
    other_disk_.suspend(true);
    shrink_while_away();
    expect_served_after_a_resize();
}

TEST_F(WithADiskShrunkWhileAway, a_former_process_is_not_used_by_a_restarted_target) {
    serve_beside_former();
    node_.crash();
    disk_.shrink(kLeft);
    restart_target();
    ASSERT_TRUE(await(2));
    world_.run_for(from_s(6));
    expect_served_after_a_resize();
    EXPECT_EQ(other_->engine().counters().storage_errors, 0u);
}

TEST_F(WithADiskShrunkWhileAway, a_former_process_does_not_replace_one_that_was_restarted) {
    serve_beside_former();
    world_.cut(node_, *other_node_);
    ASSERT_TRUE(await(1));
    end_first(0);
    start_first(holder(3), 1);
    set_policy(cache::Policy::kBack);
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(await(0));
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk) << "engines acknowledge it";
    disk_.shrink(kLeft);
    world_.run_for(from_s(1));
    world_.heal_all();
    ASSERT_TRUE(await(2));
    world_.run_for(from_s(1));
    other_disk_.take_away();
    world_.run_for(cache::RemoteQueue::kTakenMax + from_s(5));
    expect_served_after_a_resize();
}

TEST_F(WithADiskShrunkWhileAway, engines_acknowledge_no_write_before_the_resize) {
    start_engines(2);
    set_policy(cache::Policy::kBack);
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(0, Operation::kFlush), Outcome::kOk);
    shrink_while_away();
    EXPECT_EQ(run(0, Operation::kWrite, 8), Outcome::kMediumError);
    EXPECT_EQ(run(1, Operation::kRead, 8), Outcome::kMediumError);
    EXPECT_EQ(dirty(), 0u);
    expect_served_after_a_resize();
}

// Two processes took the disk one after the other. Both are connected when the connection of the last one
// ends without a report. The first of the two has not yet noticed that it lost the disk.
class WithTwoSuccessors : public WithTwoProcesses {
  protected:
    void end_last(io::SimDisk& first, io::SimDisk& second) {
        disk_.succeed(holder(1));
        first.succeed(holder(2));
        second.succeed(holder(3));
        start_engines(2);
        reconnect_first();
        storage_node_.crash();
        retire(std::move(storage_));
        ASSERT_TRUE(await(0));
        first.refuse(true);
        start_other_storage_alone();
        ASSERT_TRUE(await(1));
        start_third_storage();
        ASSERT_TRUE(await(2));
        world_.run_for(from_s(1));
        EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        EXPECT_GT(second.writes(), 0u);
    }
};

TEST_F(WithTwoSuccessors, the_later_one_is_used_if_it_joins_first) {
    end_last(third_disk_, other_disk_);
}

TEST_F(WithTwoSuccessors, the_later_one_is_used_if_it_joins_last) {
    end_last(other_disk_, third_disk_);
}

}  // namespace
}  // namespace wss::sim
