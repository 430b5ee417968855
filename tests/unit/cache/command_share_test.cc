// SPDX-License-Identifier: Apache-2.0
#include "target/cache/command_share.h"

#include <gtest/gtest.h>

namespace wss::cache {
namespace {

// Returns how many of the `limit` commands of a volume a session gets while other sessions hold `held`.
uint64_t take_all(uint64_t limit, uint64_t held) {
    uint64_t mine = 0;
    while (held + mine < limit && leaves_enough(mine, limit - held - mine)) ++mine;
    return mine;
}

TEST(CommandShare, gives_a_session_nearly_all_commands_of_its_volume_and_leaves_the_rest_to_others) {
    const uint64_t first = take_all(448, 0);
    EXPECT_NEAR(static_cast<double>(first), 448 * 7 / 8, 2);
    const uint64_t second = take_all(448, first);
    EXPECT_NEAR(static_cast<double>(second), 448 / 8 * 7 / 8, 2);
    EXPECT_GE(take_all(448, first + second), 4u);
}

TEST(CommandShare, lets_a_session_without_commands_take_the_last_one) {
    EXPECT_EQ(take_all(1, 0), 1u);
}

TEST(CommandShare, outlives_its_owner_while_a_command_is_counted) {
    CommandShareRef held;
    {
        CommandShareRef share = CommandShareRef::make();
        held = share;
        ++share->commands;
    }
    EXPECT_EQ(held->commands, 1u);
}

}  // namespace
}  // namespace wss::cache
