// SPDX-License-Identifier: Apache-2.0
// Engines that leave while writes to them are in flight.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

// The network between the target and the engines is slow, so that a write is in flight for some ticks of the
// cache.
class EnginesOnASlowNetwork : public ClusterOperator {
  protected:
    void SetUp() override {
        ASSERT_TRUE(log::set_level(getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off"));
        slow_.delay_min = slow_.delay_max = from_ms(20);
        options_.commands = 16;
        options_.destage.age_max = from_s(3600);
        options_.lost_grace = {};
        target_ = std::make_unique<ClusterTarget>(node_, network_, slow_, disk_, membership_, options_);
        target_->start();
        ASSERT_TRUE(until([&] { return target_->started(); }));
        start_engines();
        create_under_write_back();
    }
    void start_engines() {
        for (int i = 0; i < 2; ++i) {
            engines_.push_back({&world_.add_node(fmt::format("engine{}", engines_.size())), nullptr});
            engines_.back().process =
                std::make_unique<ClusterEngine>(*engines_.back().node, slow_, 4 << 20, "target");
            ASSERT_TRUE(engines_.back().process->start());
        }
        ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    }
    bool all_gone() {
        return std::all_of(engines_.begin(), engines_.end(),
                           [](const EngineNode& engine) { return engine.process->gone(); });
    }

    fabric::SimNetwork slow_{};
};

TEST_F(EnginesOnASlowNetwork, are_released_only_when_no_acknowledged_write_is_only_in_them) {
    for (int64_t i = 0; i < 12; ++i) {
        world_.run_for(from_ms(9));  // relative to the ticks, each round begins later than the one before
        ASSERT_TRUE(a_.client->begin(Operation::kWrite, static_cast<uint64_t>(i) * kLine, kLine));
        world_.run_for(from_ms(30));
        for (EngineNode& engine : engines_)
            if (!engine.process->leaving()) engine.process->leave();
        ASSERT_TRUE(until([&] { return a_.client->under_way() == 0 && all_gone(); }));
        EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
        EXPECT_EQ(run(a_, Operation::kRead, static_cast<uint64_t>(i) * kLine), Outcome::kOk) << i;
        ASSERT_NO_FATAL_FAILURE(start_engines());
    }
}

}  // namespace
}  // namespace wss::sim
