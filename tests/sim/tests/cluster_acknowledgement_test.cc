// SPDX-License-Identifier: Apache-2.0
// SE2 of target/cache/cache.h: under write-back, a write of which an engine has no copy yet is not
// acknowledged. It waits until the engine has its copy, or until storage has the data.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

// Shorter than CacheOptions::silence_max and than the retries of the network: nothing is lost.
constexpr Nanoseconds kShortCut = from_ms(500);
constexpr Nanoseconds kStorageDelay = from_s(3);

// The side from which the engine is cut off: its commands come from the target, the data from the client.
enum class From { kTarget, kClient };

// The engine, the side of the cut, and whether both engines already have the line and it is dirty.
class ClusterAcknowledgement : public ClusterOperator,
                               public ::testing::WithParamInterface<std::tuple<size_t, From, bool>> {
  protected:
    void SetUp() override {
        ClusterOperator::SetUp();
        create_under_write_back();
        if (std::get<2>(GetParam())) write_lines(1);
        written_before_ = a_.disk.writes();
    }
    EngineNode& cut_engine() { return engines_[std::get<0>(GetParam())]; }
    EngineNode& other_engine() { return engines_[1 - std::get<0>(GetParam())]; }
    void cut() {
        const From from = std::get<1>(GetParam());
        world_.cut(from == From::kTarget ? node_ : client_node(), *cut_engine().node);
    }
    void begin_write() { ASSERT_TRUE(a_.client->begin(Operation::kWrite, 0, kLine)); }
    bool is_acknowledged() { return a_.client->under_way() == 0; }
    uint64_t single() {
        uint64_t lines = 0;
        for (const auto& volume : target_->cache().info().volumes) lines += volume.single_lines;
        return lines;
    }
    bool is_in_storage() { return a_.disk.writes() > written_before_; }
    void lose(EngineNode& engine) {
        const size_t before = live_engines();
        kill_engine(engine);
        ASSERT_TRUE(until([&] { return live_engines() == before - 1; }));
    }

    uint64_t written_before_ = 0;
};

TEST_P(ClusterAcknowledgement, waits_until_both_engines_have_their_copies) {
    cut();
    begin_write();
    world_.run_for(kShortCut);
    EXPECT_FALSE(is_acknowledged());
    world_.heal_all();
    ASSERT_TRUE(until([&] { return is_acknowledged(); }));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
    ASSERT_FALSE(is_in_storage()) << "then it needs no second copy";
    EXPECT_EQ(dirty(), 1u);
    lose(other_engine());
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk) << "from the engine that was cut off";
}

TEST_P(ClusterAcknowledgement, waits_for_storage_if_an_engine_stays_cut_off) {
    a_.faults.latency_min = a_.faults.latency_max = kStorageDelay;
    cut();
    begin_write();
    const Nanoseconds begin = world_.now();
    ASSERT_TRUE(until([&] { return is_acknowledged() || is_in_storage(); }));
    EXPECT_TRUE(is_in_storage()) << "acknowledged with one copy";
    EXPECT_GE(world_.now() - begin, kStorageDelay);
    ASSERT_TRUE(until([&] { return is_acknowledged(); }));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
    a_.faults = {};
    ASSERT_TRUE(until([&] { return single() == 0; })) << "sub-blocks that were dirty before";
    lose(other_engine());
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 1; }));
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk) << "the loss of the other engine loses nothing";
}

// If a copy that missed the write were left, a later start of the target would read it, or destage it.
TEST_P(ClusterAcknowledgement, leaves_no_copy_that_missed_the_write) {
    cut();
    begin_write();
    ASSERT_TRUE(until([&] { return is_acknowledged(); }));
    EXPECT_EQ(a_.client->last_outcome(), Outcome::kOk);
    world_.heal_all();
    ASSERT_TRUE(until([&] { return live_engines() == 2; }));
    EXPECT_EQ(run(a_, Operation::kFlush), Outcome::kOk);
    lose(other_engine());
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
    start_engine(other_engine());
    restart_target();
    create("a", a_);
    ASSERT_TRUE(until([&] { return recovered() && a_.client->live(); }));
    EXPECT_EQ(run(a_, Operation::kRead), Outcome::kOk);
}

INSTANTIATE_TEST_SUITE_P(Cuts, ClusterAcknowledgement,
                         ::testing::Combine(::testing::Values(size_t{0}, size_t{1}),
                                            ::testing::Values(From::kTarget, From::kClient),
                                            ::testing::Bool()));

}  // namespace
}  // namespace wss::sim
