// SPDX-License-Identifier: Apache-2.0
// Step-by-step tests of single events in a cache cluster. The random runs of the scenario "cluster" rarely
// produce these events.
#include <gtest/gtest.h>

#include <vector>

#include "lib/base/log.h"
#include "tests/sim/scenarios/block_client.h"
#include "tests/sim/scenarios/cluster_parts.h"

namespace wss::sim {
namespace {

using initiator::Operation;
using initiator::Outcome;

constexpr uint64_t kSectors = 8192;
constexpr uint64_t kLine = 128;  // sectors
constexpr Nanoseconds kLimit = from_s(60);

// A network without faults, one client, and a volume under write-back whose lines are not destaged by age.
class CacheCluster : public ::testing::Test {
  protected:
    struct EngineNode {
        Node* node;
        std::unique_ptr<ClusterEngine> process;
    };

    void SetUp() override {
        ASSERT_TRUE(log::set_level(getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off"));
        start_target();
        for (int i = 0; i < 2; ++i) {
            engines_.push_back({&world_.add_node("engine" + std::to_string(i)), nullptr});
            engines_.back().process =
                std::make_unique<ClusterEngine>(*engines_.back().node, network_, 4 << 20, "target");
            ASSERT_TRUE(engines_.back().process->start());
        }
        client_ = std::make_unique<BlockClient>(client_node_, network_, "target", 8, shared_);
        client_->start();
        ASSERT_TRUE(until([&] { return client_->live() && live_engines() == 2; }));
        Status set = Status(Code::kBusy);
        target_->cache().set_policy("disk", {.policy = cache::Policy::kBack}, [&](Status s) { set = s; });
        ASSERT_TRUE(until([&] { return set.is_ok(); }));
    }
    void TearDown() override {
        EXPECT_EQ(shared_.failure, "");
        retire(std::move(client_));
        retire(std::move(target_));
        for (EngineNode& engine : engines_) retire(std::move(engine.process));
    }

    void start_target() {
        cache::CacheOptions options;
        options.commands = 32;
        options.destages = destages_;
        options.destage.age_max = from_s(3600);
        options.lost_grace = {};              // losses are reported at once
        options.recovery_grace = from_s(20);  // an engine may need a few seconds to notice and to return
        target_ = std::make_unique<ClusterTarget>(node_, network_, network_, disk_, membership_, options);
        target_->open_slowly(opening_);
        target_->start();
        ASSERT_TRUE(until([&] { return target_->started(); }));
    }
    // The restart must undo nothing: acknowledged data is in engines, or destaged and stable.
    void restart_target() {
        node_.crash();
        disk_.crash();
        retire(std::move(target_));
        node_.restart();
        start_target();
    }
    void stop_target(Nanoseconds home_max) {
        target_->stop(home_max);
        ASSERT_TRUE(until([&] { return target_->stopped(); }));
    }
    bool until(const std::function<bool()>& done) { return world_.run_until(done, kLimit); }
    size_t live_engines() {
        size_t count = 0;
        for (const auto& engine : target_->cache().info().engines) count += engine.state == "live";
        return count;
    }
    // Engines that the client is connected to, according to the target.
    size_t attached_engines() {
        size_t count = 0;
        for (const auto& engine : target_->cache().info().engines) count += engine.clients;
        return count;
    }
    Outcome run(Operation operation, uint64_t first = 0, uint64_t count = kLine) {
        EXPECT_TRUE(until([&] { return client_->live(); }));
        EXPECT_TRUE(client_->begin(operation, first, count));
        EXPECT_TRUE(until([&] { return client_->under_way() == 0; }));
        return client_->last_outcome();
    }
    void isolate() {
        for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
        ASSERT_TRUE(until([&] { return target_->cache().info().engines.empty(); }));
    }
    Result<uint64_t> give_up(const std::string& which) {
        std::optional<Result<uint64_t>> answer;
        target_->cache().give_up(which, [&](Result<uint64_t> given_up) { answer = std::move(given_up); });
        EXPECT_TRUE(until([&] { return answer.has_value(); }));
        return answer ? *answer : Result<uint64_t>(Status(Code::kTimedOut));
    }
    uint64_t lost() { return target_->cache().info().volumes.at(0).lost_bytes; }
    uint64_t dirty() { return target_->cache().info().index.dirty_lines; }
    cache::Membership membership() {
        auto read = cache::Membership::parse(membership_.text);
        EXPECT_TRUE(read.is_ok());
        return read ? *read : cache::Membership();
    }

    const fabric::SimNetwork network_{};
    World world_{1};
    Node& node_ = world_.add_node("target");
    Node& client_node_ = world_.add_node("client");
    io::SimDiskFaults disk_faults_{};  // no faults; changed to slow down the disk
    io::SimDisk disk_{world_, kSectors* io::SimDisk::kSector, disk_faults_};
    BlockShared shared_{kSectors};
    StableText membership_;
    uint32_t destages_ = 16;  // the number that the next target may run at a time
    Nanoseconds opening_{};   // time that its volumes take to open
    std::unique_ptr<ClusterTarget> target_;
    std::vector<EngineNode> engines_;
    std::unique_ptr<BlockClient> client_;
};

TEST_F(CacheCluster, keeps_an_engine_that_leaves_during_a_recovery_until_its_dirty_data_is_destaged) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    world_.cut(node_, *engines_[1].node);
    engines_[0].process->leave();
    restart_target();
    ASSERT_TRUE(until([&] { return !target_->cache().info().engines.empty(); }));
    world_.run_for(from_s(1));
    ASSERT_TRUE(target_->cache().recovering()) << "it waits for the other engine";
    EXPECT_FALSE(engines_[0].process->gone());
    ASSERT_TRUE(until([&] { return engines_[0].process->gone(); }));
    EXPECT_FALSE(target_->cache().recovering());
    EXPECT_EQ(dirty(), 0u);
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

TEST_F(CacheCluster, waits_for_engines_from_the_time_when_they_can_join) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    world_.cut(node_, *engines_[1].node);
    opening_ = from_s(30);  // longer than the target waits for engines
    restart_target();
    ASSERT_TRUE(until([&] { return live_engines() == 1; }));
    world_.run_for(from_s(1));
    EXPECT_TRUE(target_->cache().recovering()) << "the other engine had no time to join";
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2 && !target_->cache().recovering(); }));
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

TEST_F(CacheCluster, does_not_wait_in_a_recovery_for_an_engine_that_was_lost_during_the_previous_one) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    world_.cut(node_, *engines_[1].node);
    restart_target();
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == 1; }));
    ASSERT_TRUE(target_->cache().recovering());
    engines_[0].node->crash();
    retire(std::move(engines_[0].process));
    world_.heal_all();
    ASSERT_TRUE(until([&] { return !target_->cache().recovering() && live_engines() == 1; }));
    ASSERT_TRUE(until([&] { return membership().engines.size() == 1; }));
    EXPECT_TRUE(membership().engines.contains(engines_[1].process->engine().identity()));
    EXPECT_TRUE(membership().degraded) << "one copy is left";
    restart_target();
    ASSERT_TRUE(until([&] { return !target_->cache().recovering(); }));
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

// The waiting command's buffers are freed with the connection; ASan reports an access.
TEST_F(CacheCluster, completes_a_waiting_command_without_its_client_after_the_client_is_lost) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    world_.cut(node_, *engines_[1].node);
    restart_target();
    ASSERT_TRUE(until([&] { return client_->live() && target_->cache().info().engines.size() == 1; }));
    ASSERT_TRUE(target_->cache().recovering());
    ASSERT_TRUE(client_->begin(Operation::kRead, 0, kLine));
    world_.run_for(from_ms(500));
    ASSERT_EQ(client_->under_way(), 1u) << "it waits for the recovery";
    client_node_.crash();
    retire(std::move(client_));
    world_.run_for(from_s(15));
    ASSERT_TRUE(target_->cache().recovering());
    world_.heal_all();
    ASSERT_TRUE(until([&] { return !target_->cache().recovering(); }));
    client_ = std::make_unique<BlockClient>(world_.add_node("other"), network_, "target", 8, shared_);
    client_->start();
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
    EXPECT_TRUE(until([&] { return target_->cache().info().index.operations == 0; }));
}

TEST_F(CacheCluster, makes_commands_wait_after_a_recovery_until_superseded_copies_are_erased) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    restart_target();
    // The change is stable, but the target has not yet been notified. Records that it sends now are lost.
    ASSERT_TRUE(until([&] { return membership().degraded; }));
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    world_.run_for(from_ms(500));
    EXPECT_TRUE(target_->cache().recovering());
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.empty(); }));
    EXPECT_TRUE(until([&] { return !target_->cache().recovering(); })) << "lost engines are not awaited";
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2 && lost() == 0; }));
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

constexpr uint64_t kLineBytes = kLine * io::SimDisk::kSector;

TEST_F(CacheCluster, reads_no_stale_storage_in_place_of_acknowledged_data_in_engines_that_are_away) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    isolate();
    EXPECT_EQ(lost(), kLineBytes);
    EXPECT_EQ(run(Operation::kRead), Outcome::kMediumError);
    EXPECT_EQ(run(Operation::kRead, kLine - 8, 16), Outcome::kMediumError) << "also for a part";
    EXPECT_EQ(run(Operation::kRead, kLine), Outcome::kOk) << "the next line was never written";
    EXPECT_EQ(run(Operation::kFlush), Outcome::kMediumError);
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2 && lost() == 0; }));
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
    EXPECT_EQ(run(Operation::kFlush), Outcome::kOk);
    EXPECT_TRUE(membership().away.empty());
}

TEST_F(CacheCluster, undoes_no_rewrite_of_lost_sub_blocks_when_their_engines_return) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    isolate();
    EXPECT_EQ(run(Operation::kWrite, 1, 1), Outcome::kMediumError) << "the rest of the sub-block is away";
    ASSERT_EQ(run(Operation::kWrite, 8, 16), Outcome::kOk);
    EXPECT_EQ(lost(), kLineBytes - 16 * io::SimDisk::kSector);
    EXPECT_EQ(run(Operation::kRead, 8, 16), Outcome::kOk);
    EXPECT_EQ(run(Operation::kRead, 8, 17), Outcome::kMediumError);
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2 && lost() == 0; }));
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

TEST_F(CacheCluster, keeps_lost_data_lost_across_a_restart_of_the_target_until_its_engines_return) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(Operation::kWrite, kLine), Outcome::kOk);
    isolate();
    ASSERT_EQ(run(Operation::kWrite, kLine), Outcome::kOk);
    shared_.model.crash();  // the second write went to real storage and was not flushed
    restart_target();
    EXPECT_FALSE(target_->cache().recovering());
    EXPECT_EQ(run(Operation::kRead), Outcome::kMediumError);
    EXPECT_EQ(run(Operation::kRead, kLine), Outcome::kOk);
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2 && lost() == 0; }));
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
    EXPECT_EQ(run(Operation::kRead, kLine), Outcome::kOk);
    EXPECT_TRUE(until([&] { return membership().lost.empty() && membership().away.empty(); }));
}

// The sub-blocks of one line are lost in two steps, before and after a restart.
TEST_F(CacheCluster, takes_a_lost_copy_for_older_than_data_written_after_a_restart) {
    for (int i = 0; i < 10; ++i) ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    isolate();
    ASSERT_TRUE(until([&] { return membership().engines.empty(); }));
    restart_target();
    for (int i = 2; i < 4; ++i) {
        engines_.push_back({&world_.add_node("engine" + std::to_string(i)), nullptr});
        engines_.back().process =
            std::make_unique<ClusterEngine>(*engines_.back().node, network_, 4 << 20, "target");
        ASSERT_TRUE(engines_.back().process->start());
    }
    ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    ASSERT_EQ(run(Operation::kWrite, 8, 16), Outcome::kOk);
    ASSERT_EQ(dirty(), 1u);
    isolate();
    world_.heal(node_, *engines_[0].node);
    ASSERT_TRUE(until([&] { return live_engines() == 1 && lost() == 16 * io::SimDisk::kSector; }));
    EXPECT_EQ(run(Operation::kRead, 8, 16), Outcome::kMediumError) << "the newest copies are away";
    world_.heal_all();
    ASSERT_TRUE(until([&] { return lost() == 0; }));
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

TEST_F(CacheCluster, lets_an_engine_be_removed_while_its_lines_are_continuously_written) {
    engines_.push_back({&world_.add_node("engine2"), nullptr});
    engines_.back().process =
        std::make_unique<ClusterEngine>(*engines_.back().node, network_, 4 << 20, "target");
    ASSERT_TRUE(engines_.back().process->start());
    ASSERT_TRUE(until([&] { return live_engines() == 3; }));
    constexpr uint64_t kLines = 24;
    for (uint64_t i = 0; i < kLines; ++i) ASSERT_EQ(run(Operation::kWrite, i * kLine), Outcome::kOk);
    ASSERT_TRUE(target_->cache().remove_engine(0));
    auto engines = [&] { return target_->cache().info().engines.size(); };
    for (int i = 0; i < 5000 && engines() == 3; ++i) {
        EXPECT_TRUE(client_->begin(Operation::kWrite, (i % kLines) * kLine, kLine));
        world_.run_for(from_ms(2));
    }
    EXPECT_EQ(engines(), 2u);
    ASSERT_TRUE(until([&] { return client_->under_way() == 0; }));
    for (uint64_t i = 0; i < kLines; ++i) EXPECT_EQ(run(Operation::kRead, i * kLine), Outcome::kOk);
}

TEST_F(CacheCluster, salvages_each_line_with_one_check_and_many_lines_with_one_save_of_the_membership) {
    constexpr uint64_t kLines = 48;
    for (uint64_t i = 0; i < kLines; ++i) ASSERT_EQ(run(Operation::kWrite, i * kLine), Outcome::kOk);
    isolate();
    ASSERT_EQ(lost(), kLines * kLineBytes);
    ASSERT_TRUE(until([&] { return membership().lost.lines().size() == kLines; }));
    destages_ = 1;
    restart_target();
    disk_faults_.latency_min = disk_faults_.latency_max = from_ms(5);  // slower than a save
    const uint64_t saves = membership_.saves;
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2 && lost() == 0; }));
    EXPECT_EQ(target_->cache().info().volumes.at(0).counters.salvaged_lines, kLines);
    EXPECT_LE(target_->cache().info().salvage_checks, 2 * kLines) << "each engine had a copy of each line";
    EXPECT_LE(membership_.saves - saves, kLines / 4) << "two record the loss and the return of engines";
    for (uint64_t i = 0; i < kLines; ++i) ASSERT_EQ(run(Operation::kRead, i * kLine), Outcome::kOk);
}

TEST_F(CacheCluster, destages_adjacent_dirty_lines_in_one_write) {
    const uint64_t kTogether = 8, before = disk_.writes();  // half of the destages that may run at a time
    for (uint64_t i = 0; i < 2 * kTogether; ++i) ASSERT_EQ(run(Operation::kWrite, i * kLine), Outcome::kOk);
    ASSERT_EQ(run(Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(disk_.writes(), before + 2);
    ASSERT_EQ(run(Operation::kWrite, 0, kLine / 2), Outcome::kOk);
    for (uint64_t i : {1, 2, 4}) ASSERT_EQ(run(Operation::kWrite, i * kLine), Outcome::kOk);
    ASSERT_EQ(run(Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(disk_.writes(), before + 5) << "a gap within a line, and one between lines";
    restart_target();
    for (uint64_t i = 0; i < 2 * kTogether; ++i) EXPECT_EQ(run(Operation::kRead, i * kLine), Outcome::kOk);
}

TEST_F(CacheCluster, writes_adjacent_lines_that_storage_does_not_accept_together_one_by_one) {
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(run(Operation::kWrite, i * kLine), Outcome::kOk);
    disk_.fill(true);
    EXPECT_NE(run(Operation::kFlush), Outcome::kOk);
    EXPECT_TRUE(until([&] { return target_->cache().info().volumes.at(0).counters.destage_errors >= 4; }));
}

TEST_F(CacheCluster, ignores_copies_of_data_that_is_not_lost_during_a_salvage) {
    constexpr uint64_t kClean = 12;
    for (uint64_t i = 1; i <= kClean; ++i) ASSERT_EQ(run(Operation::kRead, i * kLine), Outcome::kOk);
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    ASSERT_TRUE(until([&] { return target_->cache().info().index.lines > kClean; }));
    isolate();
    ASSERT_EQ(lost(), kLineBytes);
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2 && lost() == 0; }));
    EXPECT_LE(target_->cache().info().salvage_checks, 2u) << "each engine had a copy of the line";
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

// An earlier acknowledgement would be wrong: after a crash of the target the old copy would undo the write.
TEST_F(CacheCluster, acknowledges_a_write_to_a_salvaged_line_once_the_salvage_is_recorded) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(Operation::kWrite, kLine), Outcome::kOk);
    isolate();
    engines_[1].node->crash();
    retire(std::move(engines_[1].process));
    membership_.stuck = true;
    disk_faults_.latency_min = disk_faults_.latency_max = from_ms(20);
    world_.heal_all();
    ASSERT_TRUE(until([&] { return lost() <= kLineBytes; }));
    disk_faults_.latency_min = disk_faults_.latency_max = from_us(10);
    ASSERT_TRUE(client_->begin(Operation::kWrite, 0, kLine));
    ASSERT_TRUE(client_->begin(Operation::kWrite, kLine, kLine));
    world_.run_for(from_s(5));
    EXPECT_EQ(client_->under_way(), 2u);
    membership_.stuck = false;
    restart_target();
    ASSERT_TRUE(until([&] { return client_->under_way() == 0 && lost() == 0; }));
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
    EXPECT_EQ(run(Operation::kRead, kLine), Outcome::kOk);
}

TEST_F(CacheCluster, repeats_a_failed_save_of_the_membership_at_each_tick_until_it_succeeds) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    membership_.full = true;
    world_.cut(node_, *engines_[1].node);
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == 1; }));
    ASSERT_TRUE(client_->begin(Operation::kWrite, 0, kLine));
    const uint64_t saves = membership_.saves;
    world_.run_for(from_s(1));
    EXPECT_EQ(client_->under_way(), 1u) << "it waits until the membership without the engine is stable";
    EXPECT_GE(membership_.saves - saves, 5u);
    EXPECT_LE(membership_.saves - saves, 11u);
    membership_.full = false;
    ASSERT_TRUE(world_.run_until([&] { return client_->under_way() == 0; }, from_ms(300)));
    EXPECT_EQ(client_->last_outcome(), Outcome::kOk);
}

TEST_F(CacheCluster, lets_a_target_whose_state_cannot_be_saved_stop_in_time) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    membership_.full = true;
    stop_target(from_s(60));
    EXPECT_TRUE(target_->cache_stopped()) << "dirty data is destaged";
    target_.reset();
    membership_.full = false;
    start_target();
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

TEST_F(CacheCluster, lets_the_next_target_find_the_lines_that_are_dirty_when_a_target_ends) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    stop_target({});
    EXPECT_EQ(target_->cache_stopped().code(), Code::kTimedOut);
    target_.reset();
    start_target();
    ASSERT_TRUE(until([&] { return !target_->cache().recovering(); }));
    EXPECT_EQ(dirty(), 1u);
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

TEST_F(CacheCluster, reports_hits_late_and_delays_no_command_by_them) {
    auto held = [&] { return target_->cache().info().index.operations; };
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(Operation::kRead), Outcome::kOk);  // warms up
    ASSERT_TRUE(until([&] { return held() == 0; }));
    int late = 0;
    Nanoseconds writing{};
    for (int round = 0; round < 20; ++round) {
        ASSERT_EQ(run(Operation::kRead), Outcome::kOk);
        world_.run_for(from_ms(5));
        late += held() == 1;
        const Nanoseconds begun = world_.now();
        ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
        writing = writing + (world_.now() - begun);
    }
    EXPECT_GT(late, 15) << "the engine holds the report until a tick requests it";
    EXPECT_LT(writing, from_ms(100)) << "a command that waits for the line requests it";
    ASSERT_EQ(run(Operation::kRead), Outcome::kOk);
    const Nanoseconds begun = world_.now();
    ASSERT_TRUE(until([&] { return held() == 0; }));
    EXPECT_LT(world_.now() - begun, from_ms(250)) << "each tick requests it";
}

TEST_F(CacheCluster, acknowledges_a_discard_once_the_loss_of_the_engine_is_recorded) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    membership_.stuck = true;
    world_.cut(node_, *engines_[1].node);
    ASSERT_TRUE(until([&] { return live_engines() == 1 && dirty() == 0; }));
    ASSERT_TRUE(client_->begin(Operation::kDiscard, 0, kLine));
    world_.run_for(from_s(5));
    EXPECT_EQ(client_->under_way(), 1u) << "after a crash of the target the lost copy would undo the discard";
    membership_.stuck = false;
    world_.heal_all();
    restart_target();
    ASSERT_TRUE(until([&] { return client_->under_way() == 0 && !target_->cache().recovering(); }));
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

// The client does not reach engine 0, so its hits go through the target. After the loss of that engine the
// reads continue from storage. Half of the disk's reads return the content as of their start.
TEST_F(CacheCluster, returns_data_that_is_destaged_meanwhile_to_reads_in_flight_in_storage) {
    constexpr uint64_t kLines = 8;
    for (uint64_t i = 0; i < kLines; ++i) ASSERT_EQ(run(Operation::kWrite, i * kLine), Outcome::kOk);
    ASSERT_EQ(dirty(), kLines);
    world_.cut(client_node_, *engines_[0].node);
    // Both sides notice the cut when data is to be moved.
    for (uint64_t i = 0; i < kLines; ++i) ASSERT_EQ(run(Operation::kRead, i * kLine), Outcome::kOk);
    ASSERT_TRUE(until([&] { return attached_engines() == 1; }));
    auto read = [&] {
        return target_->cache().info().volumes.at(0).counters.storage_read_bytes / kLineBytes;
    };
    const uint64_t before = read();
    disk_faults_.latency_min = disk_faults_.latency_max = from_s(2);
    world_.cut(node_, *engines_[0].node);
    for (uint64_t i = 0; i < kLines; ++i) ASSERT_TRUE(client_->begin(Operation::kRead, i * kLine, kLine));
    ASSERT_TRUE(until([&] { return live_engines() == 1 && read() > before; }));
    disk_faults_.latency_min = disk_faults_.latency_max = from_us(10);
    const uint64_t reading = read() - before;
    ASSERT_TRUE(until([&] { return dirty() == 0; }));
    EXPECT_GE(client_->under_way(), reading) << "dirty lines were destaged behind them";
    ASSERT_TRUE(until([&] { return client_->under_way() == 0; }));
    EXPECT_EQ(shared_.failed, 0u);
    EXPECT_EQ(read() - before, 2 * reading) << "they are repeated";
}

// One engine has READ the write's data when the client dies; the other has not. Their copies differ in
// sub-blocks that were dirty before. Nothing is destaged by age.
TEST_F(CacheCluster, destages_a_line_from_one_of_its_copies_if_they_may_differ_after_an_abandoned_write) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(dirty(), 1u);
    ASSERT_TRUE(until([&] { return attached_engines() == 2; }));
    world_.cut(client_node_, *engines_[1].node);
    ASSERT_TRUE(client_->begin(Operation::kWrite, 0, kLine));
    world_.run_for(from_ms(20));
    ASSERT_EQ(client_->under_way(), 1u);
    client_node_.crash();
    retire(std::move(client_));
    EXPECT_TRUE(until([&] { return dirty() == 0; }));
    EXPECT_TRUE(until([&] { return !membership().degraded; }));
    EXPECT_EQ(live_engines(), 2u);
    client_ = std::make_unique<BlockClient>(world_.add_node("other"), network_, "target", 8, shared_);
    client_->start();
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

// The cache has 32 commands here. Two clients of the slow volume begin 16 commands each, which uses all their
// credits.
TEST_F(CacheCluster, makes_a_volume_with_crawling_storage_leave_cache_commands_to_others) {
    const io::SimDiskFaults slow{.latency_min = from_ms(200), .latency_max = from_ms(200)};
    io::SimDisk crawling(world_, kSectors * io::SimDisk::kSector, slow);
    BlockShared shared(kSectors);
    Status created = Status(Code::kBusy);
    target_->create_volume("crawling", crawling, [&](Status status) { created = std::move(status); });
    ASSERT_TRUE(until([&] { return created.is_ok(); }));
    std::vector<std::unique_ptr<BlockClient>> busy;
    for (uint64_t i = 0; i < 2; ++i) {
        busy.push_back(std::make_unique<BlockClient>(world_.add_node("busy" + std::to_string(i)), network_,
                                                     "target", 16, shared));
        busy[i]->use_volume("crawling");
        busy[i]->start();
        ASSERT_TRUE(until([&] { return busy[i]->live(); }));
    }
    for (uint64_t i = 0; i < 32; ++i) ASSERT_TRUE(busy[i % 2]->begin(Operation::kRead, i * 2 * kLine, 8));
    world_.run_for(from_ms(100));
    const Nanoseconds begun = world_.now();
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(Operation::kRead), Outcome::kOk);
    EXPECT_LT(world_.now() - begun, from_ms(50));
    EXPECT_EQ(busy[0]->under_way() + busy[1]->under_way(), 32u) << "too few for this test";
    for (auto& client : busy) {
        EXPECT_TRUE(until([&] { return client->under_way() == 0; }));
        EXPECT_EQ(client->last_outcome(), Outcome::kOk);
        retire(std::move(client));
    }
    EXPECT_EQ(shared.failure, "");
}

// A read that misses a part of a line holds the whole line until its fill has ended.
TEST_F(CacheCluster, destages_other_lines_while_a_slow_read_holds_a_dirty_one) {
    constexpr uint64_t kFar = 8;
    ASSERT_EQ(run(Operation::kWrite, 0, 8), Outcome::kOk);
    ASSERT_EQ(run(Operation::kWrite, kFar * kLine), Outcome::kOk);
    ASSERT_EQ(dirty(), 2u);
    disk_faults_.latency_min = disk_faults_.latency_max = from_s(2);
    ASSERT_TRUE(client_->begin(Operation::kRead, 8, 8));
    world_.run_for(from_ms(100));
    disk_faults_.latency_min = disk_faults_.latency_max = from_us(10);
    ASSERT_TRUE(client_->begin(Operation::kFlush, 0, 1));
    world_.run_for(from_s(1));
    EXPECT_EQ(client_->under_way(), 2u) << "the flush waits for the line that the read holds";
    EXPECT_EQ(dirty(), 1u) << "the other one is destaged";
    ASSERT_TRUE(until([&] { return client_->under_way() == 0; }));
    EXPECT_EQ(dirty(), 0u);
    EXPECT_EQ(shared_.failed, 0u);
}

class EitherEngine : public CacheCluster, public ::testing::WithParamInterface<size_t> {};

TEST_P(EitherEngine, returns_lost_data_after_the_other_one_has_died) {
    const size_t which = GetParam();
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    isolate();
    engines_[which].node->crash();
    retire(std::move(engines_[which].process));
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 1 && lost() == 0; }));
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

TEST_P(EitherEngine, may_die_together_with_a_target_that_could_not_record_that_both_engines_are_needed) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    ASSERT_FALSE(membership().degraded);
    membership_.stuck = true;
    restart_target();
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == 2; }));
    world_.run_for(from_s(5));
    engines_[GetParam()].node->crash();
    retire(std::move(engines_[GetParam()].process));
    membership_.stuck = false;
    restart_target();
    ASSERT_TRUE(until([&] { return !target_->cache().recovering() && live_engines() == 1; }));
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
}

INSTANTIATE_TEST_SUITE_P(Died, EitherEngine, ::testing::Values(0u, 1u));

TEST_F(CacheCluster, keeps_lost_data_of_dead_engines_until_the_operator_gives_it_up) {
    ASSERT_EQ(run(Operation::kWrite), Outcome::kOk);
    isolate();
    for (EngineNode& engine : engines_) {
        engine.node->crash();
        retire(std::move(engine.process));
    }
    world_.heal_all();
    world_.run_for(from_s(30));
    EXPECT_EQ(run(Operation::kRead), Outcome::kMediumError);
    EXPECT_EQ(give_up("nothing").status().code(), Code::kNotFound);
    ASSERT_TRUE(give_up("disk"));
    EXPECT_EQ(lost(), 0u);
    EXPECT_EQ(run(Operation::kFlush), Outcome::kMediumError) << "acknowledged data is not stable";
    shared_.model.crash();  // the operator gave up unflushed data, so it may be undone
    EXPECT_EQ(run(Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(run(Operation::kRead), Outcome::kOk);
    EXPECT_EQ(give_up("disk").status().code(), Code::kNotFound) << "no data is lost";
}

}  // namespace
}  // namespace wss::sim
