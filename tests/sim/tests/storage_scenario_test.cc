// SPDX-License-Identifier: Apache-2.0
// Storage processes that take one image from one another, in the simulated world. For more seeds: make
// sim-soak SCENARIO=storage.
#include <gtest/gtest.h>

#include "lib/base/log.h"
#include "tests/sim/scenarios/storage.h"

namespace wss::sim {
namespace {

TEST(StorageScenario, completes_every_operation_without_faults) {
    ASSERT_TRUE(log::set_level("off"));
    StorageOptions options;
    options.turns = 500;
    const StorageResult result = run_storage(options);
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.failed, 0u);
    EXPECT_GT(result.operations, 500u);
    EXPECT_EQ(result.takings, 1u);
    EXPECT_GT(result.destaged, 0u);
}

TEST(StorageScenario, repeats_the_same_run_for_the_same_seed) {
    ASSERT_TRUE(log::set_level("off"));
    const StorageOptions options = StorageOptions::draw(11);
    const StorageResult first = run_storage(options), second = run_storage(options);
    EXPECT_EQ(first.trace, second.trace);
    EXPECT_EQ(first.operations, second.operations);
    EXPECT_NE(first.trace, run_storage(StorageOptions::draw(12)).trace);
}

TEST(StorageScenario, loses_no_write_when_processes_take_the_image_from_one_another) {
    ASSERT_TRUE(log::set_level("off"));
    StorageResult sum;
    for (uint64_t seed = 100; seed < 130; ++seed) {
        const StorageResult result = run_storage(StorageOptions::draw(seed));
        EXPECT_EQ(result.failure, "") << "to repeat: make sim SCENARIO=storage SEED=" << seed;
        sum.used += result.used;
        sum.kills += result.kills;
        sum.stops += result.stops;
        sum.image_cuts += result.image_cuts;
        sum.target_crashes += result.target_crashes;
        sum.losses += result.losses;
    }
    EXPECT_GT(sum.used, 60u) << "many processes served the volume in turn";
    EXPECT_GT(sum.kills, 0u);
    EXPECT_GT(sum.stops, 0u);
    EXPECT_GT(sum.image_cuts, 0u);
    EXPECT_GT(sum.target_crashes, 0u);
    EXPECT_LT(sum.losses, 10u) << "most runs complete";
}

}  // namespace
}  // namespace wss::sim
