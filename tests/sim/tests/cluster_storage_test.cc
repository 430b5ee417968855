// SPDX-License-Identifier: Apache-2.0
// Single events in the life of real storage on a node of its own, told step by step.
#include <gtest/gtest.h>

#include "lib/base/log.h"
#include "tests/sim/scenarios/block_client.h"
#include "tests/sim/scenarios/cluster_parts.h"

namespace wss::sim {
namespace {

using initiator::Operation;
using initiator::Outcome;

constexpr uint64_t kSectors = 8192;
constexpr uint64_t kStorageMemory = 8 << 20;
constexpr Nanoseconds kLimit = from_s(60);

// A network without faults, two clients, write-through.
class StorageElsewhere : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(log::set_level(getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off"));
        se::CacheOptions options;
        options.works = 16;
        target_ = std::make_unique<ClusterTarget>(node_, network_, network_, disk_, membership_, options,
                                                  kSectors * io::SimDisk::kSector);
        target_->start();
        ASSERT_TRUE(until([&] { return target_->started(); }));
        start_storage();
        for (const char* name : {"client0", "client1"}) {
            clients_.push_back(
                std::make_unique<BlockClient>(world_.add_node(name), network_, "target", 8, shared_));
            clients_.back()->start();
        }
        ASSERT_TRUE(until([&] { return clients_[0]->live() && clients_[1]->live(); }));
    }
    void TearDown() override {
        EXPECT_EQ(shared_.failure, "");
        for (auto& client : clients_) bury(std::move(client));
        bury(std::move(target_));
        bury(std::move(storage_));
    }
    bool until(const std::function<bool()>& done) { return world_.run_until(done, kLimit); }
    bool joined() {
        for (const auto& one : target_->cache().info().engines)
            if (one.state == "storage") return true;
        return false;
    }
    void start_storage() {
        storage_ = std::make_unique<ClusterEngine>(storage_node_, network_, kStorageMemory, "target", &disk_);
        ASSERT_TRUE(storage_->start());
        ASSERT_TRUE(until([&] { return joined(); }));
    }
    void restart_storage() {
        storage_node_.crash();
        disk_.crash();
        shared_.model.crash_of_storage();
        bury(std::move(storage_));
        ASSERT_TRUE(until([&] { return !joined(); }));
        storage_node_.restart();
        start_storage();
    }
    Outcome run(size_t client, Operation operation, uint64_t count = 128) {
        EXPECT_TRUE(clients_[client]->begin(operation, 0, count));
        EXPECT_TRUE(until([&] { return clients_[client]->under_way() == 0; }));
        return clients_[client]->last_outcome();
    }

    const fabric::SimNetwork network_{};
    World world_{1};
    Node& node_ = world_.add_node("target");
    Node& storage_node_ = world_.add_node("storage");
    const io::SimDiskFaults no_faults_{};
    io::SimDisk disk_{world_, kSectors* io::SimDisk::kSector, no_faults_};
    BlockShared shared_{kSectors};
    StableText membership_;
    std::unique_ptr<ClusterTarget> target_;
    std::unique_ptr<ClusterEngine> storage_;
    std::vector<std::unique_ptr<BlockClient>> clients_;
};

TEST_F(StorageElsewhere, each_initiator_hears_once_that_what_was_not_flushed_may_be_gone) {
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    restart_storage();
    for (size_t client : {0, 1}) {
        EXPECT_EQ(run(client, Operation::kFlush), Outcome::kMediumError) << client;
        EXPECT_EQ(run(client, Operation::kFlush), Outcome::kOk) << client;
    }
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
}

TEST_F(StorageElsewhere, what_was_flushed_is_there_and_nobody_is_told_of_a_loss) {
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(1, Operation::kFlush), Outcome::kOk);
    restart_storage();
    EXPECT_EQ(run(0, Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
}

TEST_F(StorageElsewhere, what_a_copy_shows_that_its_disk_lost_is_not_read_and_then_read_no_more) {
    Node& node = world_.add_node("engine");
    auto engine = std::make_unique<ClusterEngine>(node, network_, 4 << 20, "target");
    ASSERT_TRUE(engine->start());
    ASSERT_TRUE(until([&] { return target_->cache().info().capacity_lines > 0; }));
    auto counters = [&] { return target_->cache().info().volumes.at(0).counters; };
    ASSERT_EQ(run(0, Operation::kRead), Outcome::kOk);
    ASSERT_TRUE(until([&] { return counters().fills > 0; }));
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    restart_storage();
    const uint64_t hits = counters().read_hits;
    EXPECT_EQ(run(1, Operation::kRead), Outcome::kOk);
    EXPECT_EQ(counters().read_hits, hits);
    ASSERT_TRUE(until([&] { return target_->cache().info().index.operations == 0; }));
    EXPECT_EQ(run(1, Operation::kRead), Outcome::kOk);
    EXPECT_EQ(counters().read_hits, hits + 1) << "it is cached again";
    node.crash();
    bury(std::move(engine));
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == 1; }));
    EXPECT_EQ(run(1, Operation::kRead), Outcome::kOk) << "the disk's";
}

TEST_F(StorageElsewhere, commands_wait_for_storage_that_was_cut_off_and_fail_when_that_lasts) {
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(until([&] { return !joined(); }));
    ASSERT_TRUE(clients_[0]->begin(Operation::kRead, 0, 128));
    world_.run_for(from_s(1));
    EXPECT_EQ(clients_[0]->under_way(), 1u);
    world_.heal_all();
    ASSERT_TRUE(until([&] { return clients_[0]->under_way() == 0; }));
    EXPECT_EQ(clients_[0]->last_outcome(), Outcome::kOk);
    EXPECT_EQ(run(0, Operation::kFlush), Outcome::kOk) << "nothing is lost by a cut";
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(until([&] { return !joined(); }));
    EXPECT_EQ(run(1, Operation::kRead), Outcome::kMediumError);
}

}  // namespace
}  // namespace wss::sim
