// SPDX-License-Identifier: Apache-2.0
// Slots of an engine: each has one owner, whichever way it is taken.
#include "lib/cache/slot_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "lib/base/clock.h"

namespace wss::cache::testing {
namespace {

TEST(SlotPool, allocates_each_slot_once_and_again_after_its_return) {
    SlotPool pool(100, 5);
    std::set<uint32_t> taken;
    while (!pool.full()) EXPECT_TRUE(taken.insert(pool.take()).second);
    EXPECT_EQ(taken, (std::set<uint32_t>{100, 101, 102, 103, 104}));
    EXPECT_FALSE(pool.take(102));
    pool.give_back(102);
    EXPECT_EQ(pool.used(), 4u);
    EXPECT_FALSE(pool.is_taken(102));
    EXPECT_EQ(pool.take(), 102u);
}

TEST(SlotPool, refuses_a_number_of_another_pool) {
    SlotPool pool(100, 5);
    EXPECT_FALSE(pool.take(99));
    EXPECT_FALSE(pool.take(105));
    EXPECT_FALSE(pool.is_taken(99));
    EXPECT_FALSE(SlotPool().take(0));
    EXPECT_TRUE(SlotPool().full());
}

TEST(SlotPool, allocates_no_slot_twice_if_some_are_taken_by_number) {
    constexpr uint32_t kSlots = 20'000;  // fills three blocks
    SlotPool pool(7, kSlots);
    Random random(1);
    std::set<uint32_t> taken;
    for (uint32_t i = 0; i < 200'000; ++i) {
        const uint32_t slot = 7 + static_cast<uint32_t>(random.below(kSlots));
        if (random.chance(3)) {
            ASSERT_EQ(pool.take(slot), taken.insert(slot).second);
        } else if (random.chance(2) && !pool.full()) {
            ASSERT_TRUE(taken.insert(pool.take()).second);
        } else if (taken.erase(slot) > 0) {
            pool.give_back(slot);
        }
        ASSERT_EQ(pool.used(), taken.size());
        ASSERT_EQ(pool.is_taken(slot), taken.contains(slot));
    }
    while (!pool.full()) ASSERT_TRUE(taken.insert(pool.take()).second);
    EXPECT_EQ(taken.size(), kSlots);
}

}  // namespace
}  // namespace wss::cache::testing
