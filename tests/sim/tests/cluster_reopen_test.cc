// SPDX-License-Identifier: Apache-2.0
// Another owner had the storage of a volume. The lines of the volume in engines are dropped, and at the
// operator's request also acknowledged data that has no other copy. The target may crash at each step.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

class ClusterReopen : public ClusterOperator {
  protected:
    void SetUp() override {
        ClusterOperator::SetUp();
        create_under_write_back();
        for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(run(a_, Operation::kWrite, i * kLine), Outcome::kOk);
        ASSERT_EQ(dirty(), 4u);
    }
    void begin_dropping(bool give_up_dirty) {
        dropped_.reset();
        target_->drop_contents("a", give_up_dirty, [this](Status status) { dropped_ = std::move(status); });
    }
    void restart() {
        restart_target();
        create("a", a_);
        ASSERT_TRUE(until([&] { return recovered() && a_.client->live(); }));
    }
    bool given_up() { return !membership().given_up.empty(); }
    // The acknowledged data is gone, and exactly one flush reports it.
    void expect_that_it_was_given_up() {
        EXPECT_EQ(dirty(), 0u);
        EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kMediumError);
        a_.shared.model.crash();
        EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
        for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
    }

    std::optional<Status> dropped_;
};

TEST_F(ClusterReopen, refuses_to_drop_dirty_lines_unless_the_operator_gives_them_up) {
    begin_dropping(false);
    ASSERT_TRUE(until([&] { return dropped_.has_value(); }));
    EXPECT_EQ(dropped_->code(), Code::kRefused);
    EXPECT_EQ(dirty(), 4u);
    EXPECT_FALSE(given_up());
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
}

TEST_F(ClusterReopen, drops_dirty_lines_that_the_operator_gives_up_and_one_flush_fails) {
    begin_dropping(true);
    ASSERT_TRUE(until([&] { return dropped_.has_value(); }));
    EXPECT_TRUE(*dropped_) << dropped_->to_string();
    restart();
    expect_that_it_was_given_up();
    EXPECT_TRUE(until([&] { return !given_up(); }));
}

TEST_F(ClusterReopen, erases_nothing_before_the_given_up_data_is_recorded) {
    membership_.stuck = true;
    begin_dropping(true);
    world_.run_for(from_s(2));
    EXPECT_FALSE(dropped_);
    EXPECT_EQ(dirty(), 4u);
    membership_.stuck = false;
    restart();
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk) << "no data was given up or lost";
    for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(run(a_, Operation::kRead, i * kLine), Outcome::kOk);
}

TEST_F(ClusterReopen, is_refused_and_drops_nothing_while_the_state_cannot_be_written) {
    membership_.full = true;
    begin_dropping(true);
    ASSERT_TRUE(until([&] { return dropped_.has_value(); }));
    EXPECT_NE(dropped_->text().find("the state cannot be written"), std::string::npos) << dropped_->text();
    EXPECT_EQ(dirty(), 4u);
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    EXPECT_EQ(dirty(), 0u);
}

TEST_F(ClusterReopen, destages_nothing_after_a_crash_between_record_and_erasure) {
    begin_dropping(true);
    ASSERT_TRUE(until([&] { return given_up(); }));
    ASSERT_FALSE(dropped_) << "the lines are being erased";
    restart();
    expect_that_it_was_given_up();
}

// There are so many lines that erasing them takes many turns. Meanwhile they are being destaged.
class ClusterReopenOfManyLines : public ClusterOperator {
  protected:
    static constexpr uint64_t kLines = 700, kShort = 8;  // sectors of a line
    ClusterReopenOfManyLines() {
        options_.line_bytes = kShort * io::SimDisk::kSector;
        options_.destages = 4;
    }
    uint64_t destaged() { return target_->cache().info().volumes.at(1).counters.destaged_lines; }
};

TEST_F(ClusterReopenOfManyLines, destages_no_data_that_is_given_up) {
    create_under_write_back();
    for (uint64_t i = 0; i < kLines; ++i)
        ASSERT_EQ(run(a_, Operation::kWrite, i * kShort, kShort), Outcome::kOk);
    ASSERT_EQ(dirty(), kLines);
    a_.faults.latency_min = from_us(100);
    a_.faults.latency_max = from_us(300);
    target_->cache().drain("a", [](const Status&) {});
    std::optional<Status> dropped;
    target_->drop_contents("a", true, [&](Status status) { dropped = std::move(status); });
    ASSERT_TRUE(until([&] { return dropped.has_value(); }));
    EXPECT_TRUE(*dropped) << dropped->to_string();
    EXPECT_LE(destaged(), options_.destages) << "only destages that were in flight";
    EXPECT_EQ(dirty(), 0u);
}

}  // namespace
}  // namespace wss::sim
