// SPDX-License-Identifier: Apache-2.0
// The buddy allocator of I/O buffers against a model: blocks never overlap, are aligned, and all are
// returned.
#include "target/block/buffer_pool.h"

#include <gtest/gtest.h>

#include <map>

#include "lib/base/clock.h"
#include "lib/fabric/open.h"
#include "target/block/limits.h"

namespace wss::block {
namespace {

class BufferPools : public ::testing::Test {
  protected:
    std::unique_ptr<BufferPool> make(size_t bytes) {
        auto pool = BufferPool::create(*fabric_, bytes);
        EXPECT_TRUE(pool.is_ok()) << pool.status().to_string();
        return *std::move(pool);
    }
    std::unique_ptr<fabric::Fabric> fabric_ =
        *std::move(fabric::open({.scheme = fabric::Scheme::kTcp, .host = "127.0.0.1", .port = 0}));
};

TEST_F(BufferPools, never_allocate_overlapping_blocks_and_recover_all_that_are_returned) {
    auto pool = make(8 << 20);
    Random random(5);
    std::map<std::byte*, size_t> taken;
    for (int i = 0; i < 20000; ++i) {
        if (!taken.empty() && random.chance(2)) {
            auto victim = std::next(taken.begin(), static_cast<long>(random.below(taken.size())));
            pool->give(victim->first, victim->second);
            taken.erase(victim);
            continue;
        }
        size_t bytes = 1 + random.below(random.chance(10) ? kBufferMax : 65536);
        std::byte* block = pool->take(bytes);
        if (block == nullptr) continue;
        ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % kPage, 0u);
        auto next = taken.lower_bound(block);
        ASSERT_TRUE(next == taken.end() || block + bytes <= next->first);
        ASSERT_TRUE(next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= block);
        taken[block] = bytes;
    }
    for (auto& [block, bytes] : taken) pool->give(block, bytes);
    EXPECT_EQ(pool->free_bytes(), pool->size());
    std::byte* largest[4];
    for (auto& block : largest)
        ASSERT_NE(block = pool->take(kBufferMax), nullptr) << "adjacent blocks were merged";
    EXPECT_EQ(pool->take(1), nullptr);
    for (auto& block : largest) pool->give(block, kBufferMax);
}

TEST_F(BufferPools, return_no_block_while_they_are_empty_and_recover) {
    auto pool = make(kBufferMax);
    std::byte* all = pool->take(kBufferMax);
    ASSERT_NE(all, nullptr);
    EXPECT_EQ(pool->take(1), nullptr);
    pool->give(all, kBufferMax);
    all = pool->take(1);
    EXPECT_NE(all, nullptr);
    pool->give(all, 1);
}

}  // namespace
}  // namespace wss::block
