// SPDX-License-Identifier: Apache-2.0
// WithTwoProcesses: two storage processes that offer one volume.
#pragma once

#include <algorithm>

#include "tests/sim/tests/storage_elsewhere.h"

namespace wss::sim {

// Fixture for tests in which both processes are connected, and neither has reported a loss. One has the disk.
// The other one has not yet noticed that its disk was taken. The order of the two is not known.
class WithTwoProcesses : public WithStorageElsewhere {
  protected:
    void SetUp() override {
        WithStorageElsewhere::SetUp();
        disk_.succeed(holder(1));
        other_disk_.succeed(kOfAnotherSeries);
        third_disk_.be_same_as(disk_);
    }
    void TearDown() override {
        WithStorageElsewhere::TearDown();
        retire(std::move(third_));
    }
    void start_third_storage() {
        third_ = std::make_unique<ClusterEngine>(world_.add_node("third storage"), network_, storage_memory_,
                                                 "target", &third_disk_, &network_);
        ASSERT_TRUE(third_->start());
    }
    std::string trouble() { return target_->volumes().list().at(0).trouble; }
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
        ASSERT_EQ(run(0, initiator::Operation::kWrite), initiator::Outcome::kOk);
        ASSERT_GT(dirty(), 0u);
        world_.run_for(from_s(1));
    }
    // The first process reports its place when it joins again.
    void reconnect_first() {
        world_.cut(node_, storage_node_);
        ASSERT_TRUE(await(0));
        world_.heal_all();
        ASSERT_TRUE(await(1));
        world_.run_for(from_s(1));
    }
    // The first process is killed, and the other one joins. Engines hold only clean lines.
    void replace_first_without_dirty_lines() {
        start_engines(2);
        reconnect_first();
        fill_all();
        storage_node_.crash();
        retire(std::move(storage_));
        ASSERT_TRUE(await(0));
        start_other_storage_alone();
        ASSERT_TRUE(await(1));
        world_.run_for(from_s(1));
    }
    void expect_served_by_other() {
        world_.run_for(cache::RemoteQueue::kTakenMax + from_s(5));
        EXPECT_EQ(run(0, initiator::Operation::kRead), initiator::Outcome::kOk);
        EXPECT_TRUE(until([&] { return dirty() == 0; }));
    }
    io::SimDisk third_disk_{world_, kSectors* io::SimDisk::kSector, no_faults_};
    std::unique_ptr<ClusterEngine> third_;
};

}  // namespace wss::sim
