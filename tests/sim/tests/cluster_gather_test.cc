// SPDX-License-Identifier: Apache-2.0
// A client that reaches no engine reads lines that an engine holds: the read waits for a buffer of the
// target.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

class ClusterGather : public ClusterOperator, public ::testing::WithParamInterface<size_t> {
  protected:
    ClusterGather() {
        options_.commands = 256;
        options_.read_ahead.window_first = options_.read_ahead.window_max = 0;
    }
    void SetUp() override {
        ClusterOperator::SetUp();
        options_.commands = 256;
        restart_target();
        ASSERT_TRUE(until([&] { return recovered(); }));
        create_under_write_back();
        create("b", b_);
        attach("b", b_);
        attach("a", a_);
        for (EngineNode& engine : engines_) world_.cut(client_node(), *engine.node);
        world_.run_for(from_s(5));
    }
    // One engine holds the whole first line. One sub-block of the line is dirty, in both engines.
    void fill_the_first_line() {
        ASSERT_EQ(run(a_, Operation::kWrite, 0, kLine), Outcome::kOk);
        ASSERT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
        ASSERT_EQ(run(a_, Operation::kRead, 0, kLine), Outcome::kOk);
        for (uint64_t i = 1; i < 8; ++i) ASSERT_EQ(run(a_, Operation::kWrite, i * kLine), Outcome::kOk);
        ASSERT_EQ(run(a_, Operation::kWrite, 0, 8), Outcome::kOk);
    }
    // Begins reads that occupy all buffers for seconds, as storage is slow.
    void take_all_buffers() {
        a_.faults.latency_min = a_.faults.latency_max = from_s(3);
        b_.faults.latency_min = b_.faults.latency_max = from_s(3);
        for (uint64_t i = 1; i < 4; ++i) {
            ASSERT_TRUE(a_.client->begin(Operation::kRead, i * 2048, 2048));
            world_.run_for(from_ms(5));
        }
        for (uint64_t i = 0; i < 4; ++i) {
            ASSERT_TRUE(b_.client->begin(Operation::kRead, i * 2048, 2048));
            world_.run_for(from_ms(5));
        }
    }
};

TEST_P(ClusterGather, returns_no_data_that_the_remaining_copy_lacks) {
    ASSERT_NO_FATAL_FAILURE(fill_the_first_line());
    ASSERT_NO_FATAL_FAILURE(take_all_buffers());
    ASSERT_TRUE(a_.client->begin(Operation::kRead, 0, 8 * kLine));
    world_.run_for(from_ms(200));
    engines_[GetParam()].process->stop();
    ASSERT_TRUE(until([&] { return target_->cache().info().engines.size() == 1; }, from_s(2)));
    EXPECT_EQ(a_.client->under_way(), 4u) << "the read has not waited for a buffer";
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_EQ(a_.shared.failure, "");
}

INSTANTIATE_TEST_SUITE_P(EachEngine, ClusterGather, ::testing::Values(size_t{0}, size_t{1}));

}  // namespace
}  // namespace wss::sim
