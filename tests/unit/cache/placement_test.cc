// SPDX-License-Identifier: Apache-2.0
// Placement: shares follow weights, copies are on different engines, and few lines move when an engine joins
// or leaves.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

#include "lib/cache/placement.h"

namespace wss::cache {
namespace {

constexpr uint64_t kLines = 20000;

TEST(CachePlacement, gives_engines_shares_that_follow_the_weights) {
    Placement placement;
    placement.add({0}, 100, 1);
    placement.add({1}, 101, 2);
    placement.add({2}, 102, 5);
    std::map<uint8_t, double> share;
    for (uint64_t line = 0; line < kLines; ++line) share[placement.best({3, line}).value] += 1.0 / kLines;
    EXPECT_NEAR(share[0], 1.0 / 8, 0.01);
    EXPECT_NEAR(share[1], 2.0 / 8, 0.01);
    EXPECT_NEAR(share[2], 5.0 / 8, 0.01);
}

TEST(CachePlacement, puts_copies_in_different_engines_best_first) {
    EXPECT_TRUE(rc::check([] {
        Placement placement;
        uint8_t engines = *rc::gen::inRange<uint8_t>(1, kEnginesMax);
        for (uint8_t i = 0; i < engines; ++i)
            placement.add({i}, *rc::gen::arbitrary<uint64_t>(), *rc::gen::inRange<uint64_t>(0, 1000));
        LineKey key{1, *rc::gen::arbitrary<uint64_t>()};
        Ranking all = placement.rank(key, kEnginesMax), two = placement.rank(key, 2);
        RC_ASSERT(all.count == engines);
        RC_ASSERT(two.count == std::min<uint32_t>(engines, 2));
        RC_ASSERT(all.engines[0] == placement.best(key));
        uint64_t seen = 0;
        for (uint32_t i = 0; i < all.count; ++i) {
            RC_ASSERT((seen >> all.engines[i].value & 1) == 0u);
            seen |= uint64_t{1} << all.engines[i].value;
            if (i < two.count) {
                RC_ASSERT(two.engines[i] == all.engines[i]);
            }
        }
    }));
}

TEST(CachePlacement, moves_only_lines_that_the_new_engine_wins) {
    Placement before, after;
    for (uint8_t i = 0; i < 4; ++i) {
        before.add({i}, 1000u + i, 10);
        after.add({i}, 1000u + i, 10);
    }
    after.add({9}, 2000, 10);
    uint64_t moved = 0;
    for (uint64_t line = 0; line < kLines; ++line) {
        EngineIndex was = before.best({0, line}), is = after.best({0, line});
        if (was == is) continue;
        ++moved;
        EXPECT_EQ(is, EngineIndex{9}) << "a line moved between old engines";
    }
    EXPECT_NEAR(static_cast<double>(moved) / kLines, 1.0 / 5, 0.01);
}

TEST(CachePlacement, moves_only_lines_of_a_leaving_engine_and_moves_them_back_on_its_return) {
    Placement placement;
    for (uint8_t i = 0; i < 5; ++i) placement.add({i}, 1000u + i, 1u + i);
    std::vector<EngineIndex> was;
    for (uint64_t line = 0; line < kLines; ++line) was.push_back(placement.best({0, line}));
    placement.remove({2});
    for (uint64_t line = 0; line < kLines; ++line)
        if (was[line] != EngineIndex{2}) {
            EXPECT_EQ(placement.best({0, line}), was[line]);
        }
    // The engine has another index now, but the same identity.
    placement.add({7}, 1002, 3);
    for (uint64_t line = 0; line < kLines; ++line)
        EXPECT_EQ(placement.best({0, line}), was[line] == EngineIndex{2} ? EngineIndex{7} : was[line]);
}

TEST(CachePlacement, returns_no_engine_if_there_is_none) {
    Placement placement;
    EXPECT_FALSE(placement.best({0, 0}).exists());
    EXPECT_EQ(placement.rank({0, 0}, 2).count, 0u);
}

}  // namespace
}  // namespace wss::cache
