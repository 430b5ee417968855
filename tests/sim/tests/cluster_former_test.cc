// SPDX-License-Identifier: Apache-2.0
// Storage processes that served a volume before the last one, and have not noticed that their disk was taken.
#include <algorithm>

#include "tests/sim/tests/storage_elsewhere.h"

namespace wss::sim {
namespace {

using initiator::Operation;
using initiator::Outcome;

// Both processes are connected, and neither has reported a loss. One has the disk. The other one has not
// noticed yet that its disk was taken. Their chains of owners differ.
class TwoProcesses : public StorageElsewhere {
  protected:
    void SetUp() override {
        StorageElsewhere::SetUp();
        disk_.succeed({.chain = 7, .place = 1});
        other_disk_.succeed({.chain = 8, .place = 1});
    }
    size_t connected() {
        const auto engines = target_->cache().info().engines;
        return static_cast<size_t>(std::count_if(engines.begin(), engines.end(),
                                                 [](const auto& one) { return one.state == "storage"; }));
    }
    bool await(size_t count) {
        return until([&] { return connected() == count; });
    }
    // The other process serves the volume, and its disk lacks the engines' dirty data.
    void serve_from_other() {
        start_engines(2);
        set_policy(cache::Policy::kBack);
        world_.cut(node_, storage_node_);
        for (Node* engine : engine_nodes_) world_.cut(*engine, storage_node_);
        ASSERT_TRUE(await(0));
        start_other_storage();
        world_.run_for(from_s(1));
        other_disk_.refuse(true);
        ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        ASSERT_GT(dirty(), 0u);
        world_.run_for(from_s(1));
    }
    // It reports its place in the chain when it joins.
    void reconnect_first() {
        world_.cut(node_, storage_node_);
        ASSERT_TRUE(await(0));
        world_.heal_all();
        ASSERT_TRUE(await(1));
        world_.run_for(from_s(1));
    }
    void expect_served_by_other() {
        world_.run_for(se::RemoteQueue::kTakenMax + from_s(5));
        EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
        EXPECT_TRUE(until([&] { return dirty() == 0; }));
    }
};

TEST_F(TwoProcesses, a_target_that_starts_again_prefers_the_last_one_also_if_it_joins_later) {
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
    EXPECT_EQ(other_disk_.writes(), 0u) << "its chain does not continue the last one's";
}

TEST_F(TwoProcesses, a_target_that_starts_again_waits_for_the_last_one_that_is_cut_off_from_its_disk) {
    crash_target_with_dirty_lines();
    disk_.refuse(false);
    disk_.suspend(true);
    start_other_storage_alone();
    restart_target();
    ASSERT_TRUE(await(2));
    world_.run_for(from_ms(300));
    disk_.take_away();
    world_.run_for(from_s(5));
    EXPECT_EQ(other_disk_.writes(), 0u) << "its chain does not continue the last one's";
}

TEST_F(TwoProcesses, a_target_that_starts_again_does_not_use_a_former_one_that_joins_before_the_last) {
    serve_from_other();
    node_.crash();
    world_.heal_all();
    world_.cut(node_, *other_node_);
    other_disk_.refuse(false);
    restart_target();
    ASSERT_TRUE(await(1));
    world_.heal_all();
    ASSERT_TRUE(await(2));
    world_.run_for(from_ms(300));
    disk_.take_away();
    expect_served_by_other();
}

TEST_F(TwoProcesses, a_target_does_not_use_a_former_one_while_the_connection_of_the_last_is_interrupted) {
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

TEST_F(TwoProcesses, a_target_waits_for_the_last_one_for_writes_after_it_went_away) {
    start_engines(2);
    set_policy(cache::Policy::kBack);
    reconnect_first();
    start_other_storage_alone();
    world_.cut(node_, *other_node_);
    ASSERT_TRUE(await(1));
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(await(0));
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk) << "by the engines";
    disk_.take_away();
    world_.heal(node_, *other_node_);
    ASSERT_TRUE(await(1));
    world_.run_for(from_ms(300));
    world_.heal_all();
    ASSERT_TRUE(await(2));
    world_.run_for(from_s(5));
    EXPECT_EQ(other_disk_.writes(), 0u) << "its chain does not continue the last one's";
}

// The other process served the volume before the first one took its disk, and is cut off from the disk.
class CutOff : public TwoProcesses {
  protected:
    void SetUp() override {
        TwoProcesses::SetUp();
        disk_.succeed({.chain = 7, .place = 2});
        other_disk_.succeed({.chain = 7, .place = 1});
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
    void end_first() {
        storage_node_.crash();
        bury(std::move(storage_));
        ASSERT_TRUE(await(1));
    }
    void start_first(io::Succession succession) {
        disk_.succeed(succession);
        storage_node_.restart();
        start_storage();
        ASSERT_TRUE(await(2));
        world_.run_for(from_s(2));
    }
    void expect_served() {
        EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        other_disk_.take_away();
        world_.run_for(se::RemoteQueue::kTakenMax + from_s(5));
        EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
        EXPECT_TRUE(until([&] { return dirty() == 0; }));
    }
};

TEST_F(CutOff, a_former_process_does_not_replace_one_that_was_killed_and_started_again) {
    serve();
    end_first();
    start_first({.chain = 7, .place = 3});
    expect_served();
}

TEST_F(CutOff, a_former_process_does_not_replace_one_that_was_stopped_and_started_again) {
    serve();
    end_first();
    start_first({.chain = 9, .place = 1});
    expect_served();
}

TEST_F(CutOff, a_former_process_is_not_used_by_a_target_that_starts_again) {
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

TEST_F(CutOff, a_former_process_that_does_not_know_it_yet_gets_no_writes) {
    serve();
    set_policy(cache::Policy::kBack);
    other_disk_.suspend(false);
    disk_.refuse(true);
    world_.run_for(from_s(1));
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    ASSERT_GT(dirty(), 0u);
    end_first();
    world_.run_for(from_s(6));
    disk_.refuse(false);
    start_first({.chain = 9, .place = 1});
    expect_served();
    EXPECT_EQ(other_disk_.writes(), 0u);
}

}  // namespace
}  // namespace wss::sim
