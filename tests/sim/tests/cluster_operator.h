// SPDX-License-Identifier: Apache-2.0
// ClusterOperator: a target, its engines and clients of two volumes, for tests of operator actions.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "lib/base/log.h"
#include "tests/sim/scenarios/block_client.h"
#include "tests/sim/scenarios/cluster_parts.h"

namespace wss::sim {

using cache::Policy;
using initiator::Operation;
using initiator::Outcome;

constexpr uint64_t kSectors = 8192;
constexpr uint64_t kLine = 128;  // sectors
constexpr uint64_t kLineBytes = kLine * io::SimDisk::kSector;

// Two engines, and the disks of volumes "a" and "b", which tests create. Nothing is destaged by age.
class ClusterOperator : public ::testing::Test {
  protected:
    struct Volume {
        explicit Volume(World& world, uint64_t sectors = kSectors)
            : disk(world, sectors * io::SimDisk::kSector, faults), shared(sectors) {}
        io::SimDiskFaults faults{};  // no faults; changed to slow down the disk
        io::SimDisk disk;
        BlockShared shared;
        std::unique_ptr<BlockClient> client;
    };
    struct EngineNode {
        Node* node;
        std::unique_ptr<ClusterEngine> process;
    };

    void SetUp() override {
        ASSERT_TRUE(log::set_level(getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off"));
        options_.commands = 16;
        options_.destage.age_max = from_s(3600);
        options_.recovery_grace = from_s(20);
        options_.lost_grace = grace_;
        start_target();
        for (int i = 0; i < 2; ++i) {
            engines_.push_back({&world_.add_node("engine" + std::to_string(i)), nullptr});
            start_engine(engines_.back());
        }
        ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    }
    void TearDown() override {
        for (Volume* volume : {&a_, &b_}) {
            EXPECT_EQ(volume->shared.failure, "");
            retire(std::move(volume->client));
        }
        retire(std::move(target_));
        for (EngineNode& engine : engines_) retire(std::move(engine.process));
    }

    void start_target() {
        target_ = std::make_unique<ClusterTarget>(node_, network_, network_, disk_, membership_, options_);
        target_->start();
        ASSERT_TRUE(until([&] { return target_->started(); }));
    }
    // The restart must undo nothing: acknowledged data is in engines, or destaged and stable.
    void restart_target() {
        for (io::SimDisk* disk : {&disk_, &a_.disk, &b_.disk}) disk->crash();
        restart_target_alone();
    }
    // The same as restart_target(), but the disks do not crash.
    void restart_target_alone() {
        node_.crash();
        retire(std::move(target_));
        node_.restart();
        start_target();
    }
    void start_engine(EngineNode& engine) {
        if (!engine.node->alive()) engine.node->restart();
        engine.process = std::make_unique<ClusterEngine>(*engine.node, network_, 4 << 20, "target");
        ASSERT_TRUE(engine.process->start());
    }
    void kill_engine(EngineNode& engine) {
        engine.node->crash();
        retire(std::move(engine.process));
    }
    Status try_create(const std::string& name, Volume& volume, uint64_t bytes = 0) {
        std::optional<Status> created;
        target_->create_volume(
            name, volume.disk, [&](Status status) { created = status; }, bytes);
        EXPECT_TRUE(until([&] { return created.has_value(); }));
        return created.value_or(Status(Code::kTimedOut));
    }
    void create(const std::string& name, Volume& volume) { ASSERT_TRUE(try_create(name, volume)); }
    void attach(const std::string& name, Volume& volume) {
        // A client that saw the volume disappear can no longer use it.
        retire(std::move(volume.client));
        client_node_ = &world_.add_node(fmt::format("{} of {}", ++clients_, name));
        volume.client = std::make_unique<BlockClient>(*client_node_, network_, "target", 8, volume.shared);
        volume.client->use_volume(name);
        volume.client->start();
        ASSERT_TRUE(until([&] { return volume.client->live(); }));
    }
    Status try_policy(const std::string& name, Policy policy) {
        std::optional<Status> set;
        target_->cache().set_policy(name, {.policy = policy},
                                    [&](Status status) { set = std::move(status); });
        EXPECT_TRUE(until([&] { return set.has_value(); }));
        return set.value_or(Status(Code::kTimedOut));
    }
    void set_policy(const std::string& name, Policy policy) { ASSERT_TRUE(try_policy(name, policy)); }
    Result<uint64_t> give_up(const std::string& which) {
        std::optional<Result<uint64_t>> answer;
        target_->cache().give_up(which, [&](Result<uint64_t> given_up) { answer = std::move(given_up); });
        EXPECT_TRUE(until([&] { return answer.has_value(); }));
        return answer ? *answer : Result<uint64_t>(Status(Code::kTimedOut));
    }
    Status drain(const std::string& name) {
        std::optional<Status> drained;
        target_->cache().drain(name, [&](Status status) { drained = std::move(status); });
        EXPECT_TRUE(until([&] { return drained.has_value(); }));
        return drained.value_or(Status(Code::kTimedOut));
    }
    void begin_resize(uint64_t bytes, std::optional<Status>& resized) {
        target_->resize_volume("a", bytes, [&](Status status) { resized = status; });
    }
    Status resize(uint64_t bytes) {
        std::optional<Status> resized;
        begin_resize(bytes, resized);
        EXPECT_TRUE(until([&] { return resized.has_value(); }));
        return resized.value_or(Status(Code::kTimedOut));
    }
    // Returns what a client with an empty model reads; an empty result means zeroes.
    std::string seen(uint64_t first, uint64_t count) {
        BlockShared fresh{kSectors};
        BlockClient client(world_.add_node(fmt::format("{} of a", ++clients_)), network_, "target", 8, fresh);
        client.use_volume("a");
        client.start();
        EXPECT_TRUE(until([&] { return client.live(); }));
        EXPECT_TRUE(client.begin_read(first, count));
        EXPECT_TRUE(until([&] { return client.under_way() == 0; }));
        EXPECT_EQ(client.last_outcome(), Outcome::kOk);
        client.close();
        EXPECT_TRUE(until([&] { return client.closed(); }));
        return fresh.failure.substr(std::min(fresh.failure.find("sector"), fresh.failure.size()));
    }
    void expect_zeroes(uint64_t first, uint64_t count) { EXPECT_EQ(seen(first, count), ""); }
    void create_under_write_back() {
        create("a", a_);
        attach("a", a_);
        set_policy("a", Policy::kBack);
    }
    // Writes this number of lines, which are dirty afterwards.
    void write_lines(uint64_t count) {
        for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(run(a_, Operation::kWrite, i * kLine), Outcome::kOk);
        ASSERT_EQ(dirty(), count);
    }
    bool until(const std::function<bool()>& done, Nanoseconds limit = from_s(60)) {
        return world_.run_until(done, limit);
    }
    size_t live_engines() {
        size_t count = 0;
        for (const auto& engine : target_->cache().info().engines) count += engine.state == "live";
        return count;
    }
    uint64_t dirty() { return target_->cache().info().index.dirty_lines; }
    Node& client_node() { return *client_node_; }
    bool recovered() { return live_engines() == 2 && !target_->cache().recovering(); }
    Outcome run(Volume& volume, Operation operation, uint64_t first = 0, uint64_t count = kLine) {
        EXPECT_TRUE(until([&] { return volume.client->live(); }));
        EXPECT_TRUE(volume.client->begin(operation, first, count));
        EXPECT_TRUE(until([&] { return volume.client->under_way() == 0; }));
        return volume.client->last_outcome();
    }
    cache::Membership membership() {
        auto read = cache::Membership::parse(membership_.text);
        EXPECT_TRUE(read.is_ok());
        return read ? *read : cache::Membership();
    }

    Nanoseconds grace_{};  // none: losses are reported at once
    const fabric::SimNetwork network_{};
    World world_{1};
    Node& node_ = world_.add_node("target");
    io::SimDiskFaults disk_faults_{};
    io::SimDisk disk_{world_, kSectors* io::SimDisk::kSector, disk_faults_};
    Volume a_{world_}, b_{world_};
    StableText membership_;
    cache::CacheOptions options_;
    std::unique_ptr<ClusterTarget> target_;
    std::vector<EngineNode> engines_;
    int clients_ = 0;
    Node* client_node_ = nullptr;  // node of the client that was attached last
};

}  // namespace wss::sim
