// SPDX-License-Identifier: Apache-2.0
// Deletion of a volume while engines hold acknowledged writes that its storage does not have. These are
// destaged first, or the deletion is refused and the volume continues.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

class ClusterDeletion : public ClusterOperator {
  protected:
    static constexpr Nanoseconds kLimit = from_s(5);

    void SetUp() override {
        ClusterOperator::SetUp();
        create_under_write_back();
        for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(run(a_, Operation::kWrite, i * kLine), Outcome::kOk);
        ASSERT_EQ(dirty(), 4u);
        wwid_ = target_->volumes().find("a")->identity.wwid;
    }
    void begin(bool give_up_dirty = false) {
        answer_.reset();
        target_->cache().deletions().prepare({.wwid = wwid_,
                                              .name = "a",
                                              .give_up_dirty = give_up_dirty,
                                              .limit = kLimit,
                                              .answer = [this](Status status, volume::Deletion::Hold hold) {
                                                  EXPECT_FALSE(answer_) << "answered twice";
                                                  answer_ = std::move(status);
                                                  hold_ = std::move(hold);
                                              }});
    }
    // Prepares the deletion and returns its status.
    Status prepare(bool give_up_dirty = false) {
        begin(give_up_dirty);
        EXPECT_TRUE(until([&] { return answer_.has_value(); }, kLimit + from_s(1)));
        return answer_.value_or(Status(Code::kTimedOut));
    }
    void remove() {
        bool removed = false;
        target_->remove_volume("a", [&](const Status& status) { removed = status.is_ok(); });
        ASSERT_TRUE(until([&] { return removed; }));
        hold_.reset();
    }
    void expect_refusal(const Status& status, const std::string& reason) {
        EXPECT_EQ(status.code(), Code::kRefused) << status.text();
        EXPECT_NE(status.text().find(reason), std::string::npos) << status.text();
        EXPECT_NE(status.text().find("volume delete a --give-up-dirty"), std::string::npos) << status.text();
        EXPECT_EQ(hold_, nullptr);
    }
    void expect_that_it_goes_on() {
        for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
        EXPECT_EQ(run(a_, Operation::kWrite, 4 * kLine), Outcome::kOk);
        EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
        EXPECT_EQ(dirty(), 0u);
    }

    uint64_t wwid_ = 0;
    std::optional<Status> answer_;
    volume::Deletion::Hold hold_;
};

TEST_F(ClusterDeletion, destages_dirty_lines_first) {
    ASSERT_TRUE(prepare());
    EXPECT_EQ(dirty(), 0u);
    remove();
    create("a", a_);
    attach("a", a_);
    for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
}

TEST_F(ClusterDeletion, acknowledges_no_writes_after_the_lines_are_destaged) {
    ASSERT_TRUE(prepare());
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, 0, kLine));
    world_.run_for(from_s(1));
    EXPECT_EQ(a_.client->under_way(), 1u);
    EXPECT_EQ(dirty(), 0u);
    hold_.reset();  // the deletion is cancelled, as its state could not be saved
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
}

TEST_F(ClusterDeletion, ends_commands_that_wait_for_it) {
    ASSERT_TRUE(prepare());
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, 0, kLine));
    world_.run_for(from_s(1));
    remove();
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_NE(a_.client->last_outcome(), Outcome::kOk);
    create("b", b_);
    attach("b", b_);
    EXPECT_EQ(run(b_, Operation::kWrite), Outcome::kOk) << "a volume created in its place";
}

TEST_F(ClusterDeletion, is_refused_while_storage_fails) {
    a_.disk.take_away();
    expect_refusal(prepare(), "4 lines (at most 256 KiB)");
    EXPECT_EQ(dirty(), 4u);
    a_.disk.give_back();
    expect_that_it_goes_on();
}

TEST_F(ClusterDeletion, is_refused_when_storage_does_not_answer_in_time) {
    const io::SimDiskFaults before = a_.faults;
    a_.faults.latency_min = a_.faults.latency_max = from_s(30);
    expect_refusal(prepare(), "within 5 s");
    a_.faults = before;
    world_.run_for(from_s(30));  // the disk completes the requests in flight
    expect_that_it_goes_on();
}

TEST_F(ClusterDeletion, is_refused_while_engines_with_the_only_copies_are_away) {
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    ASSERT_TRUE(until([&] { return target_->cache().info().volumes.at(1).lost_bytes > 0; }));
    expect_refusal(prepare(), "256 KiB that were lost with engines");
    world_.heal_all();
    ASSERT_TRUE(until([&] { return target_->cache().info().volumes.at(1).lost_bytes == 0; }));
    ASSERT_TRUE(until([&] { return recovered(); }));
    expect_that_it_goes_on();
}

TEST_F(ClusterDeletion, is_refused_while_the_lines_in_engines_are_unknown) {
    for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    restart_target();
    create("a", a_);
    EXPECT_EQ(prepare().code(), Code::kBusy);
    world_.heal_all();
    ASSERT_TRUE(until([&] { return recovered(); }));
    attach("a", a_);
    expect_that_it_goes_on();
}

TEST_F(ClusterDeletion, of_a_volume_that_is_not_open_is_refused_while_engines_hold_its_lines) {
    restart_target();
    ASSERT_TRUE(until([&] { return recovered(); }));
    ASSERT_EQ(target_->cache().info().absent.size(), 1u);
    expect_refusal(prepare(), "hold 4 lines");
    EXPECT_TRUE(prepare(true));
    create("a", a_);
    attach("a", a_);
    expect_that_it_goes_on();
}

TEST_F(ClusterDeletion, discards_the_lines_that_the_operator_gives_up) {
    a_.disk.take_away();
    EXPECT_TRUE(prepare(true));
    EXPECT_EQ(dirty(), 4u);
    remove();
    EXPECT_EQ(dirty(), 0u);
}

TEST_F(ClusterDeletion, of_a_volume_without_dirty_lines_does_not_wait_for_its_storage) {
    create("b", b_);
    attach("b", b_);
    b_.faults.latency_min = b_.faults.latency_max = from_s(30);
    ASSERT_TRUE(b_.client->begin(Operation::kWrite, 0, kLine));
    world_.run_for(from_s(1));
    wwid_ = target_->volumes().find("b")->identity.wwid;
    begin();
    EXPECT_TRUE(answer_ && *answer_);
}

// The write waits behind a read that storage does not answer. Engines acknowledge it when the read ends.
TEST_F(ClusterDeletion, of_a_clean_volume_is_refused_while_a_write_may_still_be_acknowledged) {
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    a_.faults.latency_min = a_.faults.latency_max = from_s(8);
    ASSERT_TRUE(a_.client->begin(Operation::kRead, 32 * kLine, kLine));
    world_.run_for(from_ms(10));
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, 32 * kLine, kLine));
    world_.run_for(from_ms(10));
    expect_refusal(prepare(), "may still be acknowledged");
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
    EXPECT_EQ(dirty(), 1u);
    a_.faults = {};
    ASSERT_TRUE(prepare());
    EXPECT_EQ(dirty(), 0u);
    remove();
    create("a", a_);
    attach("a", a_);
    EXPECT_EQ(run(a_, Operation::kRead, 32 * kLine), Outcome::kOk);
}

TEST_F(ClusterDeletion, that_is_refused_leaves_no_volume_frozen) {
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    a_.faults.latency_min = a_.faults.latency_max = from_s(3);
    ASSERT_TRUE(a_.client->begin(Operation::kRead, 32 * kLine, kLine));
    world_.run_for(from_ms(10));
    begin();
    world_.run_for(from_ms(500));
    ASSERT_TRUE(target_->cache().info().volumes.at(1).frozen);
    target_->cache().end_waits();
    ASSERT_TRUE(until([&] { return answer_.has_value(); }));
    EXPECT_FALSE(*answer_);
    EXPECT_FALSE(target_->cache().info().volumes.at(1).frozen);
}

TEST_F(ClusterDeletion, is_refused_when_the_target_stops_during_it) {
    a_.faults.latency_min = a_.faults.latency_max = from_s(3);
    begin();
    world_.run_for(from_ms(500));
    ASSERT_FALSE(answer_);
    target_->cache().end_waits();
    world_.run_for(from_ms(200));
    ASSERT_TRUE(answer_);
    EXPECT_EQ(answer_->code(), Code::kBusy);
}

}  // namespace
}  // namespace wss::sim
