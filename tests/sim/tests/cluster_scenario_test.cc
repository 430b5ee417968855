// SPDX-License-Identifier: Apache-2.0
// The cache cluster in the simulated world. For more seeds: make sim-cache-soak.
#include <gtest/gtest.h>

#include "lib/base/log.h"
#include "tests/sim/scenarios/cluster.h"

namespace wss::sim {
namespace {

class ClusterWithoutFaults : public ::testing::TestWithParam<cache::Policy> {};

TEST_P(ClusterWithoutFaults, lets_every_operation_succeed) {
    ClusterOptions options;
    options.seed = 7;
    options.operations = 2000;
    options.policy = GetParam();
    ClusterResult result = run_cluster(options);
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.failed, 0u);
    EXPECT_GE(result.operations, 2000u);
    EXPECT_GT(result.evictions, 0u) << "the volume is larger than the cache";
    EXPECT_GT(result.out_of_band_reads, 0u);
    EXPECT_GT(result.fast_path_hits, 20u);
    if (GetParam() == cache::Policy::kBack) {
        EXPECT_GT(result.destaged, 0u);
    }
}
INSTANTIATE_TEST_SUITE_P(Policies, ClusterWithoutFaults,
                         ::testing::Values(cache::Policy::kAround, cache::Policy::kThrough,
                                           cache::Policy::kBack));

// The grant is delayed on its way from the target to the engine, while the client is notified at once.
TEST(ClusterScenario, lets_no_client_reach_an_engine_before_its_grant) {
    ClusterOptions options;
    options.operations = 200;
    options.engine_delay = from_ms(5);
    ClusterResult result = run_cluster(options);
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.refused_clients, 0u);
    EXPECT_GT(result.out_of_band_reads, 0u);
}

TEST(ClusterScenario, repeats_the_same_run_for_the_same_seed) {
    ClusterOptions options = ClusterOptions::draw(11);
    ClusterResult first = run_cluster(options), second = run_cluster(options);
    EXPECT_EQ(first.trace, second.trace);
    EXPECT_EQ(first.operations, second.operations);
    ClusterResult other = run_cluster(ClusterOptions::draw(12));
    EXPECT_NE(first.trace, other.trace);
}

TEST(ClusterScenario, loses_or_undoes_no_write_by_faults_that_its_policy_promises_to_survive) {
    ASSERT_TRUE(log::set_level("off"));
    uint64_t fast_path_hits = 0;
    for (uint64_t seed = 100; seed < 125; ++seed) {
        ClusterResult result = run_cluster(ClusterOptions::draw(seed));
        EXPECT_EQ(result.failure, "") << "to repeat: make sim-cache SEED=" << seed;
        fast_path_hits += result.fast_path_hits;
    }
    EXPECT_GT(fast_path_hits, 100u) << "most reads must take the fast path";
}

// CacheCluster tests this step by step. Here it happens by chance, to several clients at once. Any change of
// timing changes the events of a seed, so the counts of all seeds are added.
TEST(ClusterScenario, does_not_ignore_data_in_engines_that_are_cut_off) {
    ASSERT_TRUE(log::set_level("off"));
    uint64_t isolations = 0, lost_refusals = 0;
    for (uint64_t seed : {641215, 641230, 641313, 641333, 641347}) {
        ClusterResult result = run_cluster(ClusterOptions::draw(seed));
        EXPECT_EQ(result.failure, "") << "to repeat: make sim-cache SEED=" << seed;
        isolations += result.isolations;
        lost_refusals += result.lost_refusals;
    }
    EXPECT_GT(isolations, 0u);
    EXPECT_GT(lost_refusals, 0u);
}

}  // namespace
}  // namespace wss::sim
