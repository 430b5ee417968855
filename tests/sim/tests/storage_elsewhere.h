// SPDX-License-Identifier: Apache-2.0
// WithStorageElsewhere: a target with two clients, whose real storage is on another node.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "lib/base/log.h"
#include "target/cache/remote.h"
#include "tests/sim/scenarios/block_client.h"
#include "tests/sim/scenarios/cluster_parts.h"

namespace wss::sim {

// Places among the holders of one disk.
constexpr io::Succession holder(uint64_t term, uint64_t since = 1) {
    return {.series = 7, .term = term, .since = since};
}
// A place whose order is unknown, because the record of the disk's holders was removed.
constexpr io::Succession kOfAnotherSeries{.series = 8, .term = 1, .since = 1};

// A network without faults, two clients, write-through.
class WithStorageElsewhere : public ::testing::Test {
  protected:
    static constexpr uint64_t kSectors = 8192;
    static constexpr Nanoseconds kLimit = from_s(60);

    void SetUp() override {
        ASSERT_TRUE(log::set_level(getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off"));
        options_.commands = 16;
        for (io::SimDisk* disk : {&other_disk_, &smaller_}) disk->be_same_as(disk_);
        target_ = std::make_unique<ClusterTarget>(node_, network_, network_, disk_, membership_, options_,
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
        for (auto& client : clients_) retire(std::move(client));
        retire(std::move(target_));
        retire(std::move(storage_));
        retire(std::move(other_));
        for (auto& engine : engines_) retire(std::move(engine));
    }
    bool until(const std::function<bool()>& done) { return world_.run_until(done, kLimit); }
    bool joined() {
        for (const auto& one : target_->cache().info().engines)
            if (one.state == "storage") return true;
        return false;
    }
    void start_storage() {
        storage_ = std::make_unique<ClusterEngine>(storage_node_, network_, storage_memory_, "target", &disk_,
                                                   &network_);
        ASSERT_TRUE(storage_->start());
        ASSERT_TRUE(until([&] { return joined(); }));
    }
    // Starts another process that has a volume of the same name.
    void start_other_storage() {
        start_other_storage_alone();
        ASSERT_TRUE(until([&] { return joined(); }));
    }
    // The same, but the target need not run.
    void start_other_storage_alone() {
        other_node_ = &world_.add_node("other storage");
        other_ = std::make_unique<ClusterEngine>(*other_node_, network_, storage_memory_, "target",
                                                 &other_disk_, &network_);
        ASSERT_TRUE(other_->start());
    }
    // Starts a process that served the volume earlier. The process that serves it now took the storage.
    void start_former_storage() {
        other_disk_.take_away();
        start_other_storage();
    }
    void crash_storage() {
        storage_node_.crash();
        disk_.crash();
        shared_.model.crash_of_storage();
        retire(std::move(storage_));
    }
    void restart_storage() {
        crash_storage();
        ASSERT_TRUE(until([&] { return !joined(); }));
        storage_node_.restart();
        start_storage();
    }
    initiator::Outcome run(size_t client, initiator::Operation operation, uint64_t count = 128) {
        EXPECT_TRUE(clients_[client]->begin(operation, 0, count));
        EXPECT_TRUE(until([&] { return clients_[client]->under_way() == 0; }));
        return clients_[client]->last_outcome();
    }

    // Starts engines and waits until the storage is connected to them.
    void start_engines(size_t count) {
        for (size_t i = 0; i < count; ++i) {
            Node& node = world_.add_node(fmt::format("engine{}", i));
            engines_.push_back(std::make_unique<ClusterEngine>(node, network_, 4 << 20, "target"));
            engine_nodes_.push_back(&node);
            ASSERT_TRUE(engines_.back()->start());
        }
        ASSERT_TRUE(until([&] { return reached() == count; }));
    }
    size_t reached() {
        size_t count = 0;
        for (const auto& one : target_->cache().info().engines) count += one.reached;
        return count;
    }
    cache::CacheCounters counters() { return target_->cache().info().volumes.at(0).counters; }
    // Bytes that engines and storage exchanged with the target.
    uint64_t bytes_with_target() {
        auto bytes = [](const cache::EngineCounters& c) { return c.to_storage_bytes + c.from_storage_bytes; };
        uint64_t sum = bytes(storage_->engine().counters());
        for (auto& engine : engines_) sum += bytes(engine->engine().counters());
        return sum;
    }
    void fill_all() {
        const uint64_t fills = counters().fills;
        ASSERT_EQ(run(0, initiator::Operation::kRead), initiator::Outcome::kOk);
        ASSERT_TRUE(until([&] { return counters().fills > fills; }));
    }
    void set_policy(cache::Policy policy) {
        bool set = false;
        target_->cache().set_policy("disk", {.policy = policy}, [&](const Status& status) {
            EXPECT_TRUE(status) << status.to_string();
            set = true;
        });
        ASSERT_TRUE(until([&] { return set; }));
    }

    uint64_t dirty() { return target_->cache().info().volumes.at(0).dirty_lines; }
    // Afterwards the target has recorded the first owner of the disk.
    void lose_storage_with_nothing_dirty() {
        start_engines(2);
        set_policy(cache::Policy::kBack);
        ASSERT_EQ(run(0, initiator::Operation::kWrite), initiator::Outcome::kOk);
        ASSERT_EQ(run(0, initiator::Operation::kFlush), initiator::Outcome::kOk);
        crash_storage();
        ASSERT_TRUE(until([&] { return !joined(); }));
    }
    void crash_target_with_dirty_lines() {
        start_engines(2);
        set_policy(cache::Policy::kBack);
        disk_.refuse(true);
        ASSERT_EQ(run(0, initiator::Operation::kWrite), initiator::Outcome::kOk);
        ASSERT_GT(dirty(), 0u);
        node_.crash();
    }
    void make_dirty_without_storage() {
        ASSERT_NO_FATAL_FAILURE(lose_storage_with_nothing_dirty());
        ASSERT_EQ(run(0, initiator::Operation::kWrite), initiator::Outcome::kOk) << "engines acknowledge it";
    }
    void restart_target() {
        node_.crash();
        retire(std::move(target_));
        node_.restart();
        target_ = std::make_unique<ClusterTarget>(node_, network_, network_, disk_, membership_, options_,
                                                  kSectors * io::SimDisk::kSector);
        target_->start();
        ASSERT_TRUE(until([&] { return target_->started(); }));
    }
    Status give_up(bool look_only) {
        std::optional<Status> dropped;
        target_->drop_contents(
            "disk", true, [&](Status status) { dropped = std::move(status); }, look_only);
        EXPECT_TRUE(until([&] { return dropped.has_value(); }));
        return dropped.value_or(Status(Code::kTimedOut, "no answer"));
    }
    Status give_up_for_a_reopening() {
        Status looked = give_up(true);
        return looked ? give_up(false) : looked;
    }
    // The joined process does not have the target's storage.
    void expect_waiting() {
        ASSERT_TRUE(until([&] { return dirty() > 0; })) << "the restarted target finds the dirty lines";
        world_.run_for(from_s(3));
        EXPECT_EQ(run(0, initiator::Operation::kRead, 8), initiator::Outcome::kMediumError);
        EXPECT_GT(dirty(), 0u) << "nothing was destaged";
    }
    void expect_lost() {
        ASSERT_TRUE(until([&] { return dirty() > 0; })) << "the restarted target finds the dirty lines";
        world_.run_for(cache::RemoteQueue::kTakenMax + from_s(3));
        EXPECT_GT(dirty(), 0u) << "nothing was destaged";
        // A thread notifies the volumes (io::SizeNotices), outside the simulated time.
        initiator::Outcome outcome = run(0, initiator::Operation::kRead);
        for (int tries = 0; outcome != initiator::Outcome::kVolumeGone && tries < 1000; ++tries) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            outcome = run(0, initiator::Operation::kRead);
        }
        EXPECT_EQ(outcome, initiator::Outcome::kVolumeGone);
    }

    cache::CacheOptions options_;
    uint64_t storage_memory_ = 8 << 20;
    const fabric::SimNetwork network_{};
    World world_{1};
    Node& node_ = world_.add_node("target");
    Node& storage_node_ = world_.add_node("storage");
    io::SimDiskFaults faults_{};  // faults of disk_
    const io::SimDiskFaults no_faults_{};
    io::SimDisk disk_{world_, kSectors* io::SimDisk::kSector, faults_};
    io::SimDisk other_disk_{world_, kSectors* io::SimDisk::kSector, no_faults_};
    io::SimDisk smaller_{world_, kSectors / 2 * io::SimDisk::kSector, no_faults_};
    BlockShared shared_{kSectors};
    StableText membership_;
    std::unique_ptr<ClusterTarget> target_;
    std::unique_ptr<ClusterEngine> storage_, other_;
    Node* other_node_ = nullptr;
    std::vector<std::unique_ptr<BlockClient>> clients_;
    std::vector<std::unique_ptr<ClusterEngine>> engines_;
    std::vector<Node*> engine_nodes_;
};

}  // namespace wss::sim
