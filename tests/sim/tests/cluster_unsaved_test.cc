// SPDX-License-Identifier: Apache-2.0
// The file system of the state file is full. Changes that cannot be recorded are refused, wait, or are
// reported at the end. The next start must undo nothing that was acknowledged.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

class WithUnsavedState : public ClusterOperator {
  protected:
    void SetUp() override {
        ClusterOperator::SetUp();
        create_under_write_back();
        write_lines(kLines);
    }
    void find_volume() {
        create("a", a_);
        ASSERT_TRUE(until([&] { return !target_->cache().recovering(); }));
        attach("a", a_);
    }
    Status stop() {
        target_->stop(from_s(1));
        EXPECT_TRUE(until([&] { return target_->stopped(); }));
        return target_->cache_stopped();
    }
    void expect_that_it_goes_on() {
        for (uint64_t i = 0; i < kLines; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
    }

    static constexpr uint64_t kLines = 4;
};

TEST_F(WithUnsavedState, given_up_lines_do_not_overwrite_later_writes) {
    restart_target();
    ASSERT_TRUE(until([&] { return recovered() && !target_->cache().info().absent.empty(); }));
    membership_.full = true;
    const auto given_up = give_up("a");
    ASSERT_FALSE(given_up);
    EXPECT_NE(given_up.status().text().find("not yet recorded for the next start"), std::string::npos)
        << given_up.status().text();
    const auto again = give_up("a");
    EXPECT_EQ(again.status().text(), given_up.status().text()) << "while it is not recorded";
    a_.shared.model.crash();  // the operator gave up the unflushed data
    create("a", a_);
    attach("a", a_);
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, 0, kLine));
    world_.run_for(from_s(1));
    EXPECT_EQ(a_.client->under_way(), 1u) << "a restart would undo it";
    membership_.full = false;
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
    EXPECT_EQ(give_up("a").status().code(), Code::kNotFound);
    restart_target_alone();
    find_volume();
    EXPECT_EQ(dirty(), 0u);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
}

TEST_F(WithUnsavedState, a_policy_that_cannot_be_recorded_for_the_next_start_is_refused) {
    membership_.full = true;
    const Status refused = try_policy("a", Policy::kThrough);
    EXPECT_FALSE(refused);
    EXPECT_NE(refused.text().find("the policy of volume a is unchanged"), std::string::npos)
        << refused.text();
    EXPECT_EQ(target_->cache().info().volumes.at(1).settings.policy, Policy::kBack);
    EXPECT_EQ(run(a_, Operation::kWrite, kLines * kLine), Outcome::kOk)
        << "no command waits for the refused change";
    EXPECT_EQ(dirty(), kLines + 1);
    membership_.full = false;
    set_policy("a", Policy::kThrough);
    EXPECT_EQ(dirty(), 0u);
    expect_that_it_goes_on();
}

TEST_F(WithUnsavedState, a_stop_reports_that_the_membership_could_not_be_saved) {
    membership_.full = true;
    a_.disk.take_away();
    world_.run_for(from_s(1));
    const Status stopped = stop();
    EXPECT_NE(stopped.text().find("membership could not be saved"), std::string::npos) << stopped.text();
    EXPECT_NE(stopped.text().find("No space left"), std::string::npos) << stopped.text();
    a_.shared.model.crash();
}

TEST_F(WithUnsavedState, a_stop_succeeds_if_only_its_last_record_cannot_be_saved) {
    ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    membership_.full = true;
    EXPECT_TRUE(stop());
}

// This happens with a thin pool, where only discards free space.
TEST_F(WithUnsavedState, full_storage_does_not_prevent_discards_of_clean_blocks) {
    a_.disk.fill(true);
    EXPECT_EQ(run(a_, Operation::kDiscard, 8 * kLine), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kDiscard, 0), Outcome::kNoSpace) << "this line must be destaged first";
    EXPECT_EQ(dirty(), kLines);
    a_.disk.fill(false);
    EXPECT_EQ(run(a_, Operation::kDiscard, 0), Outcome::kOk);
    expect_that_it_goes_on();
}

}  // namespace
}  // namespace wss::sim
