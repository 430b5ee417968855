// SPDX-License-Identifier: Apache-2.0
// Fences of a volume in the cache: once a change of the write permissions has returned, no write that the
// change forbids may take effect.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

class ClusterFence : public ClusterOperator {
  protected:
    void SetUp() override {
        ClusterOperator::SetUp();
        create_under_write_back();
        ASSERT_EQ(run(a_, Operation::kWrite), Outcome::kOk);
    }
    // A write whose engines do not answer. It is repeated without them after the target drops them.
    void begin_slow_write() {
        for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
        ASSERT_TRUE(a_.client->begin(Operation::kWrite, 0, kLine));
        world_.run_for(from_ms(100));
        ASSERT_EQ(a_.client->under_way(), 1u);
    }
    void make_read_only() {
        target_->volumes().set_read_only_async("a", true,
                                               [&](Status status) { fenced_ = std::move(status); });
    }
    std::optional<Status> fenced_;
};

TEST_F(ClusterFence, for_read_only_waits_for_a_write_whose_engines_are_silent) {
    begin_slow_write();
    make_read_only();
    world_.run_for(from_ms(100));
    EXPECT_FALSE(fenced_.has_value()) << "the write may still take effect";
    world_.heal_all();
    ASSERT_TRUE(until([&] { return fenced_.has_value(); }));
    EXPECT_TRUE(*fenced_);
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    EXPECT_NE(run(a_, Operation::kWrite), Outcome::kOk);
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
}

TEST_F(ClusterFence, for_read_only_waits_for_a_write_whose_initiator_is_gone) {
    begin_slow_write();
    client_node().crash();
    make_read_only();
    world_.run_for(from_ms(100));
    EXPECT_FALSE(fenced_.has_value());
    world_.heal_all();
    ASSERT_TRUE(until([&] { return fenced_.has_value(); }));
    EXPECT_TRUE(*fenced_);
}

}  // namespace
}  // namespace wss::sim
