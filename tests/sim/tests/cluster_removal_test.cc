// SPDX-License-Identifier: Apache-2.0
// A volume of the cache is removed while it is in use: by commands in storage, by commands that wait for a
// thaw, for recovery or for stable storage, by freezes and by flushes. Each ends with a defined outcome.
// Leftovers of the removed volume must not affect a volume that is created meanwhile. ASan detects a use
// after free.
#include <gtest/gtest.h>

#include "lib/base/log.h"
#include "tests/sim/scenarios/block_client.h"
#include "tests/sim/scenarios/cluster_parts.h"

namespace wss::sim {
namespace {

using initiator::Operation;
using initiator::Outcome;

constexpr uint64_t kSectors = 8192;
constexpr uint64_t kLine = 128;  // sectors
constexpr Nanoseconds kSoon = from_s(3);

// Two engines, and volume "a" with a client. Nothing is destaged by age.
class ClusterRemoval : public ::testing::Test {
  protected:
    struct Volume {
        explicit Volume(World& world) : disk(world, kSectors * io::SimDisk::kSector, faults) {}
        io::SimDiskFaults faults{};  // no faults; changed to slow down the disk
        io::SimDisk disk;
        BlockShared shared{kSectors};
        std::unique_ptr<BlockClient> client;
        bool removed = false;
    };

    void SetUp() override {
        ASSERT_TRUE(log::set_level(getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off"));
        start_target();
        for (int i = 0; i < 2; ++i) {
            engine_nodes_.push_back(&world_.add_node("engine" + std::to_string(i)));
            engines_.push_back(
                std::make_unique<ClusterEngine>(*engine_nodes_.back(), network_, 4 << 20, "target"));
            ASSERT_TRUE(engines_.back()->start());
        }
        ASSERT_TRUE(until([&] { return target_->cache().info().capacity_lines > 0; }));
        create("a", a_);
        attach("a", a_);
    }
    void TearDown() override {
        for (Volume* volume : {&a_, &b_}) {
            EXPECT_EQ(volume->shared.failure, "");
            retire(std::move(volume->client));
        }
        retire(std::move(target_));
        for (auto& engine : engines_) retire(std::move(engine));
    }
    void start_target() {
        cache::CacheOptions options;
        options.commands = 16;
        options.destage.age_max = from_s(3600);
        options.recovery_grace = from_s(3600);
        target_ = std::make_unique<ClusterTarget>(node_, network_, network_, disk_, membership_, options);
        target_->start();
        ASSERT_TRUE(until([&] { return target_->started(); }));
    }
    void create(const std::string& name, Volume& volume) {
        Status created = Status(Code::kBusy);
        target_->create_volume(name, volume.disk, [&](Status status) { created = status; });
        ASSERT_TRUE(until([&] { return created.is_ok(); }));
    }
    void attach(const std::string& name, Volume& volume) {
        volume.client = std::make_unique<BlockClient>(world_.add_node("of " + name), network_, "target", 8,
                                                      volume.shared);
        volume.client->use_volume(name);
        volume.client->start();
        ASSERT_TRUE(until([&] { return volume.client->live(); }));
    }
    void set_policy(const std::string& name, cache::Policy policy) {
        Status set = Status(Code::kBusy);
        target_->cache().set_policy(name, {.policy = policy}, [&](Status status) { set = status; });
        ASSERT_TRUE(until([&] { return set.is_ok(); }));
    }
    void remove_a() {
        target_->remove_volume("a", [this](const Status&) { a_.removed = true; });
        world_.run_for(from_ms(50));
    }
    void recover_without_an_engine() {
        set_policy("a", cache::Policy::kBack);
        ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
        world_.cut(node_, *engine_nodes_[1]);
        node_.crash();
        a_.disk.crash();
        retire(std::move(target_));
        node_.restart();
        start_target();
        create("a", a_);
        ASSERT_TRUE(until([&] { return a_.client->live() && target_->cache().info().engines.size() == 1; }));
        ASSERT_TRUE(target_->cache().recovering());
    }
    bool until(const std::function<bool()>& done, Nanoseconds limit = from_s(60)) {
        return world_.run_until(done, limit);
    }
    Outcome run(Volume& volume, Operation operation, uint64_t first = 0, uint64_t count = kLine) {
        EXPECT_TRUE(volume.client->begin(operation, first, count));
        EXPECT_TRUE(until([&] { return volume.client->under_way() == 0; }));
        return volume.client->last_outcome();
    }
    bool all_ends() {
        return until([&] { return a_.client->under_way() == 0 && a_.removed; }, kSoon);
    }
    // Volume "b" can be created, written, read, discarded and flushed.
    void expect_that_b_serves() {
        if (b_.client == nullptr) {
            create("b", b_);
            attach("b", b_);
        }
        for (Operation operation : {Operation::kWrite, Operation::kRead, Operation::kWriteZeroes,
                                    Operation::kRead, Operation::kWrite, Operation::kFlush, Operation::kRead})
            EXPECT_EQ(run(b_, operation), Outcome::kOk);
        for (const auto& volume : target_->cache().info().volumes) EXPECT_FALSE(volume.frozen) << volume.name;
    }

    const fabric::SimNetwork network_{};
    World world_{1};
    Node& node_ = world_.add_node("target");
    io::SimDiskFaults disk_faults_{};
    io::SimDisk disk_{world_, kSectors* io::SimDisk::kSector, disk_faults_};
    StableText membership_;
    Volume a_{world_}, b_{world_};
    std::unique_ptr<ClusterTarget> target_;
    std::vector<Node*> engine_nodes_;
    std::vector<std::unique_ptr<ClusterEngine>> engines_;
};

class FreezingCommand : public ClusterRemoval, public ::testing::WithParamInterface<Operation> {};

TEST_P(FreezingCommand, does_not_affect_a_volume_that_is_created_while_its_own_is_removed) {
    ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    a_.faults.latency_min = a_.faults.latency_max = from_s(2);
    ASSERT_TRUE(a_.client->begin(GetParam(), 0, kLine));
    world_.run_for(from_ms(200));
    remove_a();
    create("b", b_);
    attach("b", b_);
    ASSERT_EQ(a_.client->under_way(), 1u) << "the command is in storage";
    EXPECT_EQ(run(b_, Operation::kWrite), Outcome::kOk);
    ASSERT_TRUE(all_ends());
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk) << "the command had begun";
    expect_that_b_serves();
}

INSTANTIATE_TEST_SUITE_P(OfRealStorage, FreezingCommand,
                         ::testing::Values(Operation::kWriteZeroes, Operation::kDiscard));

TEST_F(ClusterRemoval, ends_commands_that_wait_for_a_thaw) {
    a_.faults.latency_min = a_.faults.latency_max = from_s(2);
    ASSERT_TRUE(a_.client->begin(Operation::kWriteZeroes, 0, kLine));
    world_.run_for(from_ms(100));
    ASSERT_TRUE(a_.client->begin(Operation::kRead, 4 * kLine, kLine));
    ASSERT_TRUE(a_.client->begin(Operation::kDiscard, 8 * kLine, kLine));
    world_.run_for(from_ms(100));
    remove_a();
    EXPECT_TRUE(until([&] { return a_.client->under_way() == 2; }, from_ms(200))) << "the read is refused";
    EXPECT_NE(a_.client->last_outcome(), Outcome::kOk);
    EXPECT_TRUE(until([&] { return a_.removed && a_.client->under_way() == 0; }, from_s(10)));
    expect_that_b_serves();
}

TEST_F(ClusterRemoval, lets_commands_in_storage_complete) {
    a_.faults.latency_min = a_.faults.latency_max = from_s(1);
    ASSERT_TRUE(a_.client->begin(Operation::kRead, 0, kLine));
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, 4 * kLine, kLine));
    world_.run_for(from_ms(100));
    remove_a();
    create("b", b_);
    ASSERT_TRUE(all_ends());
    EXPECT_EQ(a_.shared.failed, 0u);
    attach("b", b_);
    expect_that_b_serves();
}

TEST_F(ClusterRemoval, completes_a_destage_that_a_flush_and_a_freeze_wait_for) {
    set_policy("a", cache::Policy::kBack);
    ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    a_.faults.latency_min = a_.faults.latency_max = from_s(1);
    ASSERT_TRUE(a_.client->begin(Operation::kFlush, 0, 1));
    ASSERT_TRUE(a_.client->begin(Operation::kDiscard, 0, kLine));
    world_.run_for(from_ms(100));
    remove_a();
    EXPECT_TRUE(until([&] { return a_.client->under_way() == 0; }, from_ms(500))) << "both are refused";
    EXPECT_EQ(a_.shared.failed, 2u);
    EXPECT_TRUE(until([&] { return a_.removed; }, kSoon));
    expect_that_b_serves();
}

TEST_F(ClusterRemoval, ends_commands_that_wait_for_a_recovery_that_does_not_end) {
    recover_without_an_engine();
    ASSERT_TRUE(a_.client->begin(Operation::kRead, 0, kLine));
    ASSERT_TRUE(a_.client->begin(Operation::kFlush, 0, 1));
    ASSERT_TRUE(a_.client->begin(Operation::kDiscard, 4 * kLine, kLine));
    world_.run_for(from_ms(200));
    ASSERT_EQ(a_.client->under_way(), 3u);
    remove_a();
    EXPECT_TRUE(all_ends());
    EXPECT_EQ(a_.shared.failed, 3u);
    world_.heal_all();
    ASSERT_TRUE(until([&] { return !target_->cache().recovering(); }));
    expect_that_b_serves();
}

TEST_F(ClusterRemoval, ends_commands_that_wait_for_stable_storage_and_completes_once_recorded) {
    set_policy("a", cache::Policy::kBack);
    ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    membership_.full = true;
    world_.cut(node_, *engine_nodes_[1]);
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == 1; }));
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, 0, kLine));
    ASSERT_TRUE(a_.client->begin(Operation::kDiscard, 4 * kLine, kLine));
    world_.run_for(from_ms(500));
    ASSERT_EQ(a_.client->under_way(), 2u);
    remove_a();
    EXPECT_TRUE(until([&] { return a_.client->under_way() == 0; }, kSoon));
    EXPECT_EQ(a_.shared.failed, 2u);
    world_.run_for(from_s(1));
    EXPECT_FALSE(a_.removed) << "a restart would find the volume in the membership";
    membership_.full = false;
    EXPECT_TRUE(all_ends());
}

TEST_F(ClusterRemoval, ends_a_waiting_change_of_policy) {
    a_.faults.latency_min = a_.faults.latency_max = from_s(2);
    ASSERT_TRUE(a_.client->begin(Operation::kRead, 0, kLine));
    world_.run_for(from_ms(100));
    Status set = Status(Code::kBusy);
    target_->cache().set_policy("a", {.policy = cache::Policy::kNone}, [&](Status status) { set = status; });
    world_.run_for(from_ms(100));
    remove_a();
    create("b", b_);
    ASSERT_TRUE(all_ends());
    EXPECT_EQ(set.code(), Code::kNotFound);
    attach("b", b_);
    expect_that_b_serves();
}

TEST_F(ClusterRemoval, wipes_lines_and_releases_their_slots) {
    set_policy("a", cache::Policy::kBack);
    for (uint64_t line = 0; line < 8; ++line)
        ASSERT_EQ(run(a_, Operation::kWrite, line * kLine), Outcome::kOk);
    ASSERT_EQ(target_->cache().info().index.dirty_lines, 8u);
    remove_a();
    ASSERT_TRUE(all_ends());
    EXPECT_TRUE(until([&] { return target_->cache().info().index.lines == 0; }, kSoon));
    EXPECT_EQ(target_->cache().info().index.dirty_lines, 0u);
    for (const auto& engine : target_->cache().info().engines) EXPECT_EQ(engine.used_slots, 0u);
    expect_that_b_serves();
}

}  // namespace
}  // namespace wss::sim
