// SPDX-License-Identifier: Apache-2.0
#include "target/cache/staging.h"

#include <gtest/gtest.h>

#include <vector>

namespace wss::cache {
namespace {

constexpr EngineIndex kStorage{3};

StagingPool make(uint32_t units) {
    return StagingPool({.address = 0x10000, .bytes = uint64_t{units} * kStagingUnit + 5, .rkey = 9}, kStorage,
                       7);
}

TEST(StagingPool, allocates_each_buffer_once_until_it_is_returned) {
    StagingPool pool = make(8);
    std::vector<StagingBuffer> taken;
    for (int i = 0; i < 8; ++i) {
        taken.push_back(pool.take(4096));
        ASSERT_TRUE(taken.back());
    }
    for (size_t a = 0; a < taken.size(); ++a)
        for (size_t b = 0; b < a; ++b) EXPECT_NE(taken[a].first, taken[b].first);
    EXPECT_FALSE(pool.take(1));
    pool.give_back(taken[5]);
    const StagingBuffer again = pool.take(kStagingUnit);
    ASSERT_TRUE(again);
    EXPECT_EQ(again.first, taken[5].first);
    EXPECT_EQ(again.storage, kStorage);
    EXPECT_EQ(again.incarnation, 7u);
}

TEST(StagingPool, allocates_buffers_of_several_units_contiguously_within_the_memory) {
    StagingPool pool = make(5);
    const StagingBuffer one = pool.take(kStagingUnit), two = pool.take(2 * kStagingUnit);
    ASSERT_TRUE(one && two);
    EXPECT_EQ(two.count, 2u);
    pool.give_back(one);
    // Three units are free, two of them adjacent: the end and the beginning are not adjacent.
    EXPECT_FALSE(pool.take(3 * kStagingUnit));
    const StagingBuffer last = pool.take(kStagingUnit + 1);
    ASSERT_TRUE(last);
    EXPECT_EQ(last.count, 2u);
    EXPECT_LE(last.first + last.count, 5u);
    EXPECT_FALSE(pool.take(0));
    EXPECT_FALSE(pool.take(UINT32_MAX / 2));
    const wire::RemoteBuffer at = pool.remote(last, 512, 4096);
    EXPECT_EQ(at.address, 0x10000 + last.place() + 512);
    EXPECT_EQ(at.rkey, 9u);
    EXPECT_EQ(at.length, 4096u);
}

TEST(StagingPool, frees_buffers_that_an_engine_may_still_write_once_its_connection_has_ended) {
    StagingPool pool = make(1);
    pool.named(100);
    pool.named(101);
    const StagingBuffer buffer = pool.take(kStagingUnit);
    pool.quarantine(buffer, 100);
    pool.quarantine(buffer, 101);
    pool.give_back(buffer);
    EXPECT_FALSE(pool.take(1));
    pool.gone(100);
    EXPECT_FALSE(pool.take(1));
    pool.gone(101);
    EXPECT_TRUE(pool.take(1));
}

TEST(StagingPool, does_not_free_buffers_in_use_at_the_end_of_a_connection) {
    StagingPool pool = make(1);
    pool.named(100);
    const StagingBuffer buffer = pool.take(kStagingUnit);
    pool.quarantine(buffer, 100);
    pool.gone(100);
    EXPECT_FALSE(pool.take(1));
    pool.give_back(buffer);
    EXPECT_TRUE(pool.take(1));
}

TEST(StagingPool, frees_buffers_whose_connection_ended_earlier_at_once) {
    StagingPool pool = make(1);
    pool.named(100);
    pool.gone(100);
    const StagingBuffer buffer = pool.take(kStagingUnit);
    pool.quarantine(buffer, 100);
    pool.give_back(buffer);
    EXPECT_EQ(pool.free_units(), 1u);
}

}  // namespace
}  // namespace wss::cache
