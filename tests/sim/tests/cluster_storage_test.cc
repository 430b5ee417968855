// SPDX-License-Identifier: Apache-2.0
// Step-by-step tests of single events of real storage on a separate node.
#include "tests/sim/tests/storage_elsewhere.h"

namespace wss::sim {
namespace {

using initiator::Operation;
using initiator::Outcome;

TEST_F(WithStorageElsewhere, each_initiator_gets_one_error_for_unflushed_writes_that_may_be_lost) {
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    restart_storage();
    for (size_t client : {0, 1}) {
        EXPECT_EQ(run(client, Operation::kFlush), Outcome::kMediumError) << client;
        EXPECT_EQ(run(client, Operation::kFlush), Outcome::kOk) << client;
    }
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
}

TEST_F(WithStorageElsewhere, a_restart_of_its_machine_is_no_loss_if_its_disk_is_stable) {
    disk_.make_stable();
    restart_storage();
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    restart_storage();
    EXPECT_EQ(run(0, Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
}

TEST_F(WithStorageElsewhere, flushed_writes_survive_and_no_loss_is_reported) {
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(1, Operation::kFlush), Outcome::kOk);
    restart_storage();
    EXPECT_EQ(run(0, Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
}

TEST_F(WithStorageElsewhere, copies_of_writes_that_its_disk_lost_are_not_read) {
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
    EXPECT_EQ(counters().read_hits, hits + 1) << "the line is cached again";
    node.crash();
    retire(std::move(engine));
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == 1; }));
    EXPECT_EQ(run(1, Operation::kRead), Outcome::kOk) << "from the disk";
}

// Another process had the storage meanwhile and may have written it, so hits would return old data.
TEST_F(WithStorageElsewhere, copies_are_dropped_when_the_volume_of_a_new_process_is_too_small) {
    start_engines(2);
    fill_all();
    const uint64_t before = counters().read_hits;
    ASSERT_EQ(run(1, Operation::kRead), Outcome::kOk);
    ASSERT_EQ(counters().read_hits, before + 1);
    crash_storage();
    ASSERT_TRUE(until([&] { return !joined(); }));
    storage_node_.restart();
    storage_ = std::make_unique<ClusterEngine>(storage_node_, network_, storage_memory_, "target", &smaller_,
                                               &network_);
    ASSERT_TRUE(storage_->start());
    ASSERT_TRUE(until([&] { return joined(); }));
    const uint64_t hits = counters().read_hits;
    EXPECT_EQ(run(1, Operation::kRead), Outcome::kMediumError);
    EXPECT_EQ(counters().read_hits, hits);
}

// The engines' data is older than what the other owner may have written, whichever process has the disk now.
TEST_F(WithStorageElsewhere, dirty_lines_are_not_destaged_over_writes_of_another_owner_of_its_disk) {
    make_dirty_without_storage();
    disk_.change_hands();
    storage_node_.restart();
    start_storage();
    expect_waiting();
}

// The loss is detected just before the stop. An owner that is not a target leaves no trace for the next
// process.
TEST_F(WithStorageElsewhere, dirty_lines_are_not_destaged_if_its_disk_is_lost_just_before_a_stop) {
    start_engines(2);
    set_policy(cache::Policy::kBack);
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    ASSERT_GT(dirty(), 0u);
    disk_.take_away();
    storage_->stop();
    ASSERT_TRUE(until([&] { return storage_->gone(); }));
    retire(std::move(storage_));
    disk_.give_back();
    start_storage();
    expect_lost();
}

// The target was down while its disk had the other owner.
TEST_F(WithStorageElsewhere, a_restarted_target_detects_that_its_disk_had_another_owner) {
    make_dirty_without_storage();
    disk_.change_hands();
    restart_target();
    storage_node_.restart();
    start_storage();
    expect_waiting();
}

// The volume was moved to another process of the same owner. The former process keeps running for its other
// volumes.
TEST_F(WithStorageElsewhere, the_report_of_a_former_process_loses_no_data_however_long_the_last_one_is_away) {
    make_dirty_without_storage();
    start_former_storage();
    world_.run_for(cache::RemoteQueue::kAwayMax + from_s(5));
    EXPECT_GT(dirty(), 0u);
    restart_target();
    ASSERT_TRUE(until([&] { return joined() && dirty() > 0; }));
    world_.run_for(cache::RemoteQueue::kAwayMax + from_s(5));
    storage_node_.restart();
    start_storage();
    EXPECT_TRUE(until([&] { return dirty() == 0; }));
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
    EXPECT_TRUE(cache::Membership::parse(membership_.text)->storage_lost.empty());
}

TEST_F(WithStorageElsewhere, the_report_of_a_former_process_does_not_block_a_volume_without_dirty_lines) {
    lose_storage_with_nothing_dirty();
    start_former_storage();
    for (const bool restarts : {false, true}) {
        if (restarts) restart_target();
        world_.run_for(cache::RemoteQueue::kAwayMax + from_s(5));
    }
    storage_node_.restart();
    start_storage();
    EXPECT_TRUE(until([&] { return run(0, Operation::kRead) == Outcome::kOk; }));
}

// Other owners may have written the disk without leaving a trace for the next process.
TEST_F(WithStorageElsewhere, a_restarted_target_accepts_the_loss_report_of_the_last_process) {
    crash_target_with_dirty_lines();
    disk_.refuse(false);
    disk_.take_away();
    restart_target();
    expect_lost();
    EXPECT_FALSE(cache::Membership::parse(membership_.text)->storage_lost.empty());
}

// The process may have taken the disk from another owner that is not a target and that left no trace.
TEST_F(WithStorageElsewhere, a_process_that_joins_after_the_loss_report_of_the_last_one_gets_no_dirty_lines) {
    crash_target_with_dirty_lines();
    disk_.take_away();
    restart_target();
    ASSERT_TRUE(until([&] { return joined(); }));
    start_other_storage();
    expect_lost();
}

// The process has not yet checked whether it has lost the volume.
TEST_F(WithStorageElsewhere, a_resumed_former_process_causes_no_loss) {
    make_dirty_without_storage();
    other_disk_.suspend(true);
    start_other_storage();
    expect_waiting();
    other_disk_.take_away();
    world_.run_for(cache::RemoteQueue::kAwayMax + from_s(5));
    storage_node_.restart();
    start_storage();
    EXPECT_TRUE(until([&] { return dirty() == 0; }));
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
}

class OtherStorage : public WithStorageElsewhere {
  protected:
    // The volume of the other process is not used, and commands fail until the right process joins.
    void expect_nothing_lost() {
        start_other_storage();
        expect_waiting();
        other_node_->crash();
        retire(std::move(other_));
        ASSERT_TRUE(until([&] { return !joined(); }));
        world_.run_for(from_s(1));
        EXPECT_NE(run(0, Operation::kRead), Outcome::kOk) << "it may have written the disk";
        storage_node_.restart();
        start_storage();
        EXPECT_TRUE(until([&] { return dirty() == 0; }));
        EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
    }
};

TEST_F(OtherStorage, that_has_another_owner_and_is_started_by_mistake_causes_no_loss) {
    make_dirty_without_storage();
    other_disk_.change_hands();
    expect_nothing_lost();
}

// The size of another owner's storage must not shrink the volume.
TEST_F(OtherStorage, that_has_another_owner_is_reported_as_such_even_if_it_is_too_small) {
    make_dirty_without_storage();
    smaller_.change_hands();
    other_node_ = &world_.add_node("other storage");
    other_ = std::make_unique<ClusterEngine>(*other_node_, network_, storage_memory_, "target", &smaller_,
                                             &network_);
    ASSERT_TRUE(other_->start());
    ASSERT_TRUE(until([&] { return joined(); }));
    expect_waiting();
    const std::string trouble = target_->volumes().find("disk")->trouble;
    EXPECT_TRUE(trouble.starts_with("another owner had its real storage")) << trouble;
}

TEST_F(OtherStorage, that_has_no_owner_and_is_started_by_mistake_causes_no_loss) {
    make_dirty_without_storage();
    other_disk_.forget_owners();
    expect_nothing_lost();
}

// Dropping would lose acknowledged data without making the volume usable.
TEST_F(WithStorageElsewhere, a_reopening_drops_no_lines_while_the_storage_process_has_lost_its_disk) {
    make_dirty_without_storage();
    disk_.take_away();
    storage_node_.restart();
    start_storage();
    world_.run_for(cache::RemoteQueue::kAwayMax);
    const uint64_t before = dirty();
    EXPECT_EQ(give_up_for_a_reopening().code(), Code::kRefused);
    EXPECT_EQ(dirty(), before);
}

TEST_F(WithStorageElsewhere, a_reopening_drops_no_lines_while_no_storage_process_is_connected) {
    make_dirty_without_storage();
    disk_.change_hands();
    storage_node_.restart();
    start_storage();
    expect_waiting();
    crash_storage();
    ASSERT_TRUE(until([&] { return !joined(); }));
    const uint64_t before = dirty();
    EXPECT_EQ(give_up_for_a_reopening().code(), Code::kRefused);
    EXPECT_EQ(dirty(), before);
    storage_node_.restart();
    start_storage();
    EXPECT_TRUE(give_up_for_a_reopening());
    EXPECT_EQ(dirty(), 0u);
}

// Once the lines are dropped, the awaited owner no longer matters.
TEST_F(WithStorageElsewhere, a_reopening_is_not_refused_if_the_storage_process_leaves_after_the_check) {
    make_dirty_without_storage();
    disk_.change_hands();
    storage_node_.restart();
    start_storage();
    expect_waiting();
    ASSERT_TRUE(give_up(true));
    crash_storage();
    ASSERT_TRUE(until([&] { return !joined(); }));
    EXPECT_TRUE(give_up(false));
    EXPECT_EQ(dirty(), 0u);
}

TEST_F(WithStorageElsewhere, dirty_lines_are_destaged_by_another_process_of_the_same_owner) {
    make_dirty_without_storage();
    restart_target();
    storage_node_.restart();
    start_storage();
    EXPECT_TRUE(until([&] { return dirty() == 0; }));
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
}

TEST_F(WithStorageElsewhere, another_owner_of_its_disk_has_no_effect_if_no_line_is_dirty) {
    lose_storage_with_nothing_dirty();
    disk_.change_hands();
    storage_node_.restart();
    start_storage();
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
    EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    EXPECT_EQ(run(0, Operation::kFlush), Outcome::kOk);
}

// This happens when a volume without dirty lines is moved from an image to a file.
TEST_F(WithStorageElsewhere, dirty_lines_are_destaged_to_a_disk_without_an_owner_after_another_disk_had_one) {
    lose_storage_with_nothing_dirty();
    disk_.forget_owners();
    storage_node_.restart();
    start_storage();
    ASSERT_EQ(run(0, Operation::kFlush), Outcome::kOk);
    crash_storage();
    ASSERT_TRUE(until([&] { return !joined(); }));
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk) << "by the engines";
    storage_node_.restart();
    start_storage();
    EXPECT_TRUE(until([&] { return dirty() == 0; }));
}

class WithFewSlots : public WithStorageElsewhere {
  protected:
    WithFewSlots() { options_.line_bytes = 256 << 10; }
};

TEST_F(WithFewSlots, a_slot_is_reused_after_its_fill_was_discarded_because_storage_lost_data) {
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk) << "something to lose";
    Node& node = world_.add_node("engine");
    // The cut makes the target serve the engine's fills.
    world_.cut(storage_node_, node);
    engines_.push_back(std::make_unique<ClusterEngine>(node, network_, 1 << 20, "target"));
    ASSERT_TRUE(engines_.back()->start());
    ASSERT_TRUE(until([&] { return target_->cache().info().capacity_lines > 0; }));
    const uint64_t slots = target_->cache().info().capacity_lines;
    const uint64_t line = options_.line_bytes / io::SimDisk::kSector;
    ASSERT_LE(slots, 8u) << "the requests of one client";
    // Clients get their responses. The engine receives the fills only after storage was lost and has
    // returned, but before the engine itself counts as lost.
    world_.cut(node_, node);
    for (uint64_t slot = 0; slot < slots; ++slot) ASSERT_TRUE(clients_[0]->begin_read(slot * line, 128));
    auto fills_begun = [&] { return target_->cache().info().index.lines == slots; };
    ASSERT_TRUE(until([&] { return clients_[0]->under_way() == 0 && fills_begun(); }));
    // The target need not detect the loss by a timeout.
    storage_->stop();
    ASSERT_TRUE(until([&] { return storage_->gone() && !joined(); }));
    crash_storage();
    storage_node_.restart();
    start_storage();
    ASSERT_TRUE(until([&] { return target_->cache().storage_nodes().losses() > 0; }));
    ASSERT_GE(target_->cache().info().index.operations, slots) << "fills are in flight";
    world_.heal(node_, node);
    ASSERT_TRUE(until([&] { return target_->cache().info().index.operations == 0; }));
    ASSERT_EQ(counters().fills, 0u);
    ASSERT_TRUE(fills_begun()) << "the engine was not lost";
    ASSERT_TRUE(clients_[1]->begin_read(slots * line, 128));
    EXPECT_TRUE(until([&] { return counters().fills > 0; }));
}

TEST_F(WithStorageElsewhere, fills_and_destages_do_not_cross_the_target) {
    start_engines(2);
    fill_all();
    const cache::CacheCounters filled = counters();
    EXPECT_EQ(filled.upkeep_direct_bytes, filled.fill_bytes);
    set_policy(cache::Policy::kBack);
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(1, Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(counters().destaged_bytes, 65536u);
    EXPECT_EQ(counters().upkeep_direct_bytes, filled.fill_bytes + 65536);
    EXPECT_EQ(counters().upkeep_through_target_bytes, 0u);
    EXPECT_EQ(counters().through_target_bytes, 0u);
    EXPECT_EQ(bytes_with_target(), 0u);
    // The destaged data is on the disk.
    set_policy(cache::Policy::kNone);
    EXPECT_EQ(run(1, Operation::kRead), Outcome::kOk);
}

TEST_F(WithStorageElsewhere, read_ahead_does_not_pass_through_the_target) {
    start_engines(2);
    for (uint64_t at = 0; at < 16 * 128; at += 128) {
        ASSERT_TRUE(clients_[0]->begin_read(at, 128));
        ASSERT_TRUE(until([&] { return clients_[0]->under_way() == 0; }));
    }
    ASSERT_TRUE(until([&] { return target_->cache().info().index.operations == 0; }));
    EXPECT_GT(counters().read_ahead_bytes, 0u);
    EXPECT_GT(counters().read_hits, 0u);
    EXPECT_EQ(counters().upkeep_direct_bytes, counters().fill_bytes);
    EXPECT_EQ(bytes_with_target(), 0u);
}

TEST_F(WithStorageElsewhere, the_target_relays_data_for_an_engine_that_the_storage_process_does_not_reach) {
    start_engines(2);
    for (Node* engine : engine_nodes_) world_.cut(storage_node_, *engine);
    set_policy(cache::Policy::kBack);
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    // The first attempt stays in flight until the network gives up.
    ASSERT_EQ(run(0, Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(counters().upkeep_through_target_bytes, 65536u);
    EXPECT_EQ(counters().upkeep_direct_bytes, 0u);
    EXPECT_EQ(reached(), 1u) << "the other engine had no request, so its cut is unnoticed";
    world_.heal_all();
    ASSERT_TRUE(until([&] { return reached() == 2; }));
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(0, Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(counters().upkeep_direct_bytes, 65536u);
}

TEST_F(WithStorageElsewhere,
       an_engine_that_is_cut_off_while_it_destages_does_not_change_data_that_is_written_later) {
    start_engines(3);
    set_policy(cache::Policy::kBack);
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    // The engine's WRITE is in flight for longer than the target waits for the engine.
    ASSERT_TRUE(clients_[0]->begin(Operation::kFlush, 0, 1));
    for (Node* engine : engine_nodes_) world_.cut(storage_node_, *engine);
    world_.run_for(from_ms(1));
    for (uint64_t at = 0; at < 8; ++at) {
        clients_[1]->begin(Operation::kWrite, at * 128, 128);
        world_.run_for(from_ms(20));
    }
    world_.cut(node_, *engine_nodes_[0]);
    world_.run_for(from_ms(1500));
    world_.heal_all();
    ASSERT_TRUE(until([&] { return clients_[0]->under_way() + clients_[1]->under_way() == 0; }));
    ASSERT_TRUE(until([&] { return reached() == 3; }));
    ASSERT_EQ(run(1, Operation::kFlush), Outcome::kOk);
    set_policy(cache::Policy::kNone);
    for (uint64_t at = 0; at < 8; ++at) {
        ASSERT_TRUE(clients_[0]->begin_read(at * 128, 128));
        ASSERT_TRUE(until([&] { return clients_[0]->under_way() == 0; }));
    }
}

// Eight staging buffers, each as long as a line: the minimum.
class WithFewStagingBuffers : public WithStorageElsewhere {
  protected:
    WithFewStagingBuffers() {
        options_.line_bytes = 256 << 10;
        storage_memory_ = 4 << 20;
    }
    void write(size_t client, uint64_t line) {
        const uint64_t first = line * options_.line_bytes / io::SimDisk::kSector;
        EXPECT_TRUE(clients_[client]->begin(Operation::kWrite, first, 128));
    }
};

// SB1. WRITEs of an engine into staging buffers are in flight while the target drops the engine. The
// storage is notified late, as it is cut off from the target by then. Meanwhile destages of other engines
// fill the remaining buffers, and their data waits there until the storage is notified.
TEST_F(WithFewStagingBuffers, late_writes_of_a_lost_engine_do_not_reach_the_disk_as_data_of_other_lines) {
    start_engines(3);
    Node& lost = *engine_nodes_[0];
    set_policy(cache::Policy::kBack);
    for (uint64_t line = 0; line < 4; ++line) write(0, line);
    ASSERT_TRUE(until([&] { return clients_[0]->under_way() == 0; }));
    world_.cut(storage_node_, lost);
    ASSERT_TRUE(clients_[0]->begin(Operation::kFlush, 0, 1));
    world_.run_for(from_ms(20));
    ASSERT_EQ(clients_[0]->under_way(), 1u) << "the engine is destaging a line";
    world_.cut(node_, lost);
    world_.run_for(from_ms(900));
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == 3; }));
    for (uint64_t line = 8; line < 16; ++line) write(1, line);
    ASSERT_TRUE(until([&] { return clients_[1]->under_way() == 0; }));
    ASSERT_TRUE(clients_[1]->begin(Operation::kFlush, 0, 1));
    world_.run_for(from_ms(20));
    world_.heal(storage_node_, lost);
    world_.run_for(from_ms(50));
    ASSERT_TRUE(joined()) << "the storage was not lost";
    world_.heal_all();
    ASSERT_TRUE(until([&] { return clients_[0]->under_way() + clients_[1]->under_way() == 0; }));
    ASSERT_TRUE(until([&] { return reached() == 3; }));
    ASSERT_EQ(run(1, Operation::kFlush), Outcome::kOk);
    set_policy(cache::Policy::kNone);
    for (uint64_t line = 0; line < 16; ++line) {
        ASSERT_TRUE(clients_[0]->begin_read(line * options_.line_bytes / io::SimDisk::kSector, 128));
        ASSERT_TRUE(until([&] { return clients_[0]->under_way() == 0; }));
    }
}

TEST_F(WithStorageElsewhere, real_storage_is_not_removed_by_a_command_for_engines) {
    for (uint32_t index = 0; index < 4; ++index) EXPECT_FALSE(target_->cache().remove_engine(index)) << index;
    world_.run_for(from_s(1));
    EXPECT_TRUE(joined());
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
}

TEST_F(WithStorageElsewhere, commands_wait_for_storage_that_was_cut_off_and_fail_if_the_cut_lasts) {
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(until([&] { return !joined(); }));
    ASSERT_TRUE(clients_[0]->begin(Operation::kRead, 0, 128));
    world_.run_for(from_s(1));
    EXPECT_EQ(clients_[0]->under_way(), 1u);
    world_.heal_all();
    ASSERT_TRUE(until([&] { return clients_[0]->under_way() == 0; }));
    EXPECT_EQ(clients_[0]->last_outcome(), Outcome::kOk);
    EXPECT_EQ(run(0, Operation::kFlush), Outcome::kOk) << "a cut loses no data";
    world_.cut(node_, storage_node_);
    ASSERT_TRUE(until([&] { return !joined(); }));
    EXPECT_EQ(run(1, Operation::kRead), Outcome::kMediumError);
}

}  // namespace
}  // namespace wss::sim
