// SPDX-License-Identifier: Apache-2.0
#include "target/cache/bays.h"

#include <gtest/gtest.h>

#include <vector>

namespace wss::se {
namespace {

constexpr cache::EngineIndex kStorage{3};

Bays make(uint32_t units) {
    return Bays({.address = 0x10000, .bytes = uint64_t{units} * kBayUnit + 5, .rkey = 9}, kStorage, 7);
}

TEST(Bays, AreGivenOutOnceUntilTheyAreGivenBack) {
    Bays bays = make(8);
    std::vector<Bay> taken;
    for (int i = 0; i < 8; ++i) {
        taken.push_back(bays.take(4096));
        ASSERT_TRUE(taken.back());
    }
    for (size_t a = 0; a < taken.size(); ++a)
        for (size_t b = 0; b < a; ++b) EXPECT_NE(taken[a].first, taken[b].first);
    EXPECT_FALSE(bays.take(1));
    bays.give_back(taken[5]);
    const Bay again = bays.take(kBayUnit);
    ASSERT_TRUE(again);
    EXPECT_EQ(again.first, taken[5].first);
    EXPECT_EQ(again.storage, kStorage);
    EXPECT_EQ(again.incarnation, 7u);
}

TEST(Bays, OfSeveralUnitsAreOneStretchInsideTheMemory) {
    Bays bays = make(5);
    const Bay one = bays.take(kBayUnit), two = bays.take(2 * kBayUnit);
    ASSERT_TRUE(one && two);
    EXPECT_EQ(two.count, 2u);
    bays.give_back(one);
    // Three units are free, two of them adjacent: the end and the beginning are not adjacent.
    EXPECT_FALSE(bays.take(3 * kBayUnit));
    const Bay last = bays.take(kBayUnit + 1);
    ASSERT_TRUE(last);
    EXPECT_EQ(last.count, 2u);
    EXPECT_LE(last.first + last.count, 5u);
    EXPECT_FALSE(bays.take(0));
    EXPECT_FALSE(bays.take(UINT32_MAX / 2));
    const wire::RemoteBuffer at = bays.remote(last, 512, 4096);
    EXPECT_EQ(at.address, 0x10000 + last.place() + 512);
    EXPECT_EQ(at.rkey, 9u);
    EXPECT_EQ(at.length, 4096u);
}

TEST(Bays, ThatAnEngineMayStillWriteAreFreeWhenItsConnectionIsOver) {
    Bays bays = make(1);
    bays.named(100);
    bays.named(101);
    const Bay bay = bays.take(kBayUnit);
    bays.distrust(bay, 100);
    bays.distrust(bay, 101);
    bays.give_back(bay);
    EXPECT_FALSE(bays.take(1));
    bays.gone(100);
    EXPECT_FALSE(bays.take(1));
    bays.gone(101);
    EXPECT_TRUE(bays.take(1));
}

TEST(Bays, ThatAreStillInUseAreNotFreeForTheEndOfAConnection) {
    Bays bays = make(1);
    bays.named(100);
    const Bay bay = bays.take(kBayUnit);
    bays.distrust(bay, 100);
    bays.gone(100);
    EXPECT_FALSE(bays.take(1));
    bays.give_back(bay);
    EXPECT_TRUE(bays.take(1));
}

TEST(Bays, WhoseConnectionWasOverBeforeAreFreeAtOnce) {
    Bays bays = make(1);
    bays.named(100);
    bays.gone(100);
    const Bay bay = bays.take(kBayUnit);
    bays.distrust(bay, 100);
    bays.give_back(bay);
    EXPECT_EQ(bays.free_units(), 1u);
}

}  // namespace
}  // namespace wss::se
