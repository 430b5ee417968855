// SPDX-License-Identifier: Apache-2.0
// Target and initiators in the simulated world. For more seeds: make sim-soak.
#include <gtest/gtest.h>

#include "lib/base/log.h"
#include "tests/sim/scenarios/block.h"

namespace wss::sim {
namespace {

TEST(BlockScenario, completes_every_operation_without_faults) {
    BlockOptions options;
    options.seed = 7;
    options.operations = 2000;
    BlockResult result = run_block(options);
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.failed, 0u);
    EXPECT_GE(result.operations, 2000u);
}

TEST(BlockScenario, repeats_the_same_run_for_the_same_seed) {
    BlockOptions options = BlockOptions::draw(11);
    BlockResult first = run_block(options), second = run_block(options);
    EXPECT_EQ(first.trace, second.trace);
    EXPECT_EQ(first.operations, second.operations);
    BlockResult other = run_block(BlockOptions::draw(12));
    EXPECT_NE(first.trace, other.trace);
}

TEST(BlockScenario, keeps_acknowledged_and_flushed_writes_through_every_fault) {
    ASSERT_TRUE(log::set_level("error"));
    for (uint64_t seed = 100; seed < 120; ++seed) {
        BlockResult result = run_block(BlockOptions::draw(seed));
        EXPECT_EQ(result.failure, "") << "to repeat: make sim SEED=" << seed;
    }
}

}  // namespace
}  // namespace wss::sim
