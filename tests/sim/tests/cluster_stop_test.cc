// SPDX-License-Identifier: Apache-2.0
// An orderly stop of the target while operations wait for engines or for storage.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

class ClusterStop : public ClusterOperator {
  protected:
    void SetUp() override {
        ClusterOperator::SetUp();
        create_under_write_back();
        ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    }
};

TEST_F(ClusterStop, does_not_wait_for_commands_that_a_recovery_holds) {
    world_.cut(node_, *engines_[1].node);
    restart_target();
    create("a", a_);
    ASSERT_TRUE(until([&] { return a_.client->live(); }));
    ASSERT_TRUE(target_->cache().recovering());
    for (Operation operation : {Operation::kRead, Operation::kFlush, Operation::kDiscard})
        ASSERT_TRUE(a_.client->begin(operation, 0, kLine));
    EXPECT_EQ(drain("a").code(), Code::kBusy) << "it does not wait at all";
    world_.run_for(from_ms(200));
    ASSERT_EQ(a_.client->under_way(), 3u);
    target_->stop();
    EXPECT_TRUE(until([&] { return target_->stopped(); }, from_s(10)));
    world_.heal_all();
    restart_target();
    create("a", a_);
    EXPECT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_EQ(a_.shared.failed, 0u) << "the next target completes the remaining commands";
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
}

TEST_F(ClusterStop, leaves_two_copies_of_lines_that_were_not_destaged_and_reports_them) {
    a_.client->close();
    ASSERT_TRUE(until([&] { return a_.client->closed(); }));
    a_.faults.latency_min = a_.faults.latency_max = from_s(3600);
    target_->stop(from_s(2));
    ASSERT_TRUE(until([&] { return !target_->cache_stopped(); }, from_s(10)));
    EXPECT_FALSE(membership().degraded);
    world_.run_for(from_s(1));
    EXPECT_FALSE(membership().degraded);
    a_.faults = {};
    options_.recovery_grace = from_s(2);
    world_.cut(node_, *engines_[1].node);
    restart_target();
    create("a", a_);
    attach("a", a_);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk) << "one engine has the line";
}

// Requests that need the lines destaged fail, and the lines stay recorded.
TEST_F(ClusterStop, with_dirty_lines_makes_a_change_of_policy_and_a_drain_fail) {
    a_.client->close();
    ASSERT_TRUE(until([&] { return a_.client->closed(); }));
    a_.faults.latency_min = a_.faults.latency_max = from_s(3600);
    std::optional<Status> changed, drained;
    target_->cache().drain("a", [&](Status status) { drained = std::move(status); });
    target_->cache().set_policy("a", {.policy = Policy::kAround},
                                [&](Status status) { changed = std::move(status); });
    world_.run_for(from_s(1));
    target_->stop(from_s(2));
    ASSERT_TRUE(until([&] { return !target_->cache_stopped(); }, from_s(10)));
    world_.run_for(from_s(3));
    EXPECT_FALSE(membership().dirty.empty());
    EXPECT_EQ(changed.value_or(Status::ok()).code(), Code::kBusy);
    EXPECT_EQ(drained.value_or(Status::ok()).code(), Code::kBusy);
    a_.faults = {};
    restart_target();
    create("a", a_);
    attach("a", a_);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk) << "the engines have the line";
}

// An index that is empty because its engines were lost does not mean that all lines are in real storage.
TEST_F(ClusterStop, is_not_clean_if_engines_are_lost_during_it) {
    for (uint64_t i = 1; i < 8; ++i) ASSERT_EQ(run(a_, Operation::kWrite, i * kLine), Outcome::kOk);
    a_.client->close();
    ASSERT_TRUE(until([&] { return a_.client->closed(); }));
    a_.faults.latency_min = a_.faults.latency_max = from_s(3);
    target_->stop();
    world_.run_for(from_ms(100));
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    ASSERT_TRUE(until([&] { return target_->stopped(); }));
    EXPECT_FALSE(target_->cache_stopped());
    EXPECT_FALSE(membership().dirty.empty());
    a_.faults = {};
    world_.heal_all();
    restart_target_alone();  // writes in flight reached the disk, but were not flushed
    create("a", a_);
    attach("a", a_);
    ASSERT_TRUE(until([&] { return recovered() && membership().lost.empty(); }));
    for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk) << i;
}

TEST_F(ClusterStop, keeps_the_record_of_only_copies_until_the_process_ends) {
    a_.client->close();
    ASSERT_TRUE(until([&] { return a_.client->closed(); }));
    a_.faults.latency_min = a_.faults.latency_max = from_s(3600);
    world_.cut(node_, *engines_[1].node);
    ASSERT_TRUE(until([&] { return live_engines() == 1 && membership().degraded; }));
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    target_->stop(from_s(2));
    world_.run_for(from_s(5));
    EXPECT_TRUE(membership().degraded);
    a_.faults = {};
    options_.recovery_grace = from_s(2);
    world_.cut(node_, *engines_[0].node);
    restart_target();
    create("a", a_);
    attach("a", a_);
    ASSERT_TRUE(a_.client->begin(Operation::kRead, 0, kLine));
    world_.run_for(from_s(5));
    EXPECT_EQ(a_.client->under_way(), 1u) << "the engine that is away has the data";
    world_.heal_all();
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
}

// The target stops although commands are unanswered, because slow storage delays them: the time for commands
// in flight has expired, and then the time for dirty lines.
class ClusterStopWithUnansweredCommands : public ClusterStop {
  protected:
    void delay(Nanoseconds latency) { a_.faults.latency_min = a_.faults.latency_max = latency; }
    void begin(Operation operation, uint64_t first, uint64_t count) {
        ASSERT_TRUE(a_.client->begin(operation, first, count));
        world_.run_for(from_ms(100));
    }
    void restart_and_complete() {
        delay(from_ms(1));
        restart_target();
        create("a", a_);
        ASSERT_TRUE(until([&] { return recovered() && a_.client->under_way() == 0; }));
        EXPECT_EQ(a_.shared.failed, 0u);
    }
};

TEST_F(ClusterStopWithUnansweredCommands, answers_none_of_them_without_the_engines) {
    ASSERT_EQ(run(a_, Operation::kWrite, 4 * kLine), Outcome::kOk);
    delay(from_ms(1800));
    begin(Operation::kRead, kLine - 8, 16);  // dirty data, and data that no engine has
    delay(from_ms(50));
    begin(Operation::kWrite, 0, kLine);            // waits for the line
    begin(Operation::kDiscard, 4 * kLine, kLine);  // waits for both
    ASSERT_EQ(a_.client->under_way(), 3u);
    delay(from_s(3600));  // nothing can be destaged
    target_->stop(from_ms(300), from_s(1));
    world_.run_for(from_ms(1400));
    delay(from_ms(50));
    world_.run_for(from_ms(800));
    EXPECT_EQ(a_.shared.failure, "") << "the read returned old data";
    EXPECT_EQ(a_.client->under_way(), 3u);
    restart_and_complete();
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk) << "no acknowledged write was undone";
    EXPECT_EQ(run(a_, Operation::kRead, 4 * kLine), Outcome::kOk) << "no acknowledged discard was undone";
}

TEST_F(ClusterStopWithUnansweredCommands, keeps_what_they_write_while_other_volumes_are_being_destaged) {
    create("b", b_);
    attach("b", b_);
    set_policy("b", Policy::kBack);
    ASSERT_EQ(run(b_, Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    delay(from_ms(1400));
    begin(Operation::kRead, kLine, kLine);
    begin(Operation::kWrite, kLine, kLine);  // waits for the line
    b_.faults.latency_min = b_.faults.latency_max = from_ms(500);
    target_->stop(from_s(1), from_s(1));
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }, from_ms(1400)));
    ASSERT_TRUE(until([&] { return target_->stopped(); }));
    b_.faults = {};
    restart_and_complete();
    EXPECT_EQ(run(a_, Operation::kRead, kLine), Outcome::kOk) << "only the engines had it";
}

}  // namespace
}  // namespace wss::sim
