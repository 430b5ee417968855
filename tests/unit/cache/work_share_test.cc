// SPDX-License-Identifier: Apache-2.0
#include "target/cache/work_share.h"

#include <gtest/gtest.h>

namespace wss::se {
namespace {

// Returns how many commands a session gets of a volume that may hold `limit`, while other sessions hold
// `held`.
uint64_t take_all(uint64_t limit, uint64_t held) {
    uint64_t mine = 0;
    while (held + mine < limit && leaves_enough(mine, limit - held - mine)) ++mine;
    return mine;
}

TEST(WorkShare, a_session_has_nearly_all_of_its_volume_and_leaves_the_rest_to_others) {
    const uint64_t first = take_all(448, 0);
    EXPECT_NEAR(static_cast<double>(first), 448 * 7 / 8, 2);
    const uint64_t second = take_all(448, first);
    EXPECT_NEAR(static_cast<double>(second), 448 / 8 * 7 / 8, 2);
    EXPECT_GE(take_all(448, first + second), 4u);
}

TEST(WorkShare, one_that_holds_nothing_may_take_the_last) {
    EXPECT_EQ(take_all(1, 0), 1u);
}

TEST(WorkShare, lives_as_long_as_a_command_counts) {
    WorkShareRef held;
    {
        WorkShareRef share = WorkShareRef::make();
        held = share;
        ++share->works;
    }
    EXPECT_EQ(held->works, 1u);
}

}  // namespace
}  // namespace wss::se
