// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/finished.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>

namespace wss::kv::store {
namespace {

TEST(KvFinishedSet, has_the_transactions_added_and_not_forgotten_in_order_of_completion) {
    Finished finished;
    std::deque<uint64_t> queue;
    std::set<uint64_t> model;
    std::mt19937_64 random(7);
    for (int step = 0; step < 200'000; step++) {
        // The set grows and shrinks alternately.
        const bool grows = random() % 100 < (step / 50'000 % 2 == 0 ? 70u : 20u);
        if (grows || queue.empty()) {
            const uint64_t value = random() % 100'000 + 1;  // a dense range, so that values collide
            if (!model.insert(value).second) continue;
            queue.push_back(value);
            finished.add({value}, {step});
        } else if (random() % 10 == 0) {
            queue.push_back(queue.front());
            queue.pop_front();
            finished.keep_oldest({step});
        } else {
            model.erase(queue.front());
            queue.pop_front();
            finished.forget_oldest();
        }
        ASSERT_EQ(finished.size(), model.size());
        if (!queue.empty()) {
            ASSERT_EQ(finished.oldest()->timestamp.value, queue.front());
        }
        const uint64_t probe = random() % 100'000 + 1;
        ASSERT_EQ(finished.has({probe}), model.contains(probe)) << probe;
    }
    for (uint64_t value = 1; value <= 100'000; value++)
        ASSERT_EQ(finished.has({value}), model.contains(value)) << value;
}

TEST(KvFinishedSet, costs_little_and_releases_its_memory) {
    Finished finished;
    const size_t empty = finished.bytes();
    for (uint64_t i = 1; i <= 1'000'000; i++) finished.add({i << 14}, {});
    EXPECT_LT(finished.bytes(), 33'000'000u);
    while (finished.oldest() != nullptr) finished.forget_oldest();
    EXPECT_LE(finished.bytes(), empty + FinishedSlots::kBlock * sizeof(uint64_t));
}

// Each call blocks a reactor, so none may move or clear more than a few blocks, however large the set is.
TEST(KvFinishedSet, grows_and_shrinks_in_steps_that_are_as_small_for_many_as_for_few) {
    constexpr uint64_t kMany = 4'000'000, kProbes = 64;
    constexpr size_t kBlockBytes = FinishedSlots::kBlock * sizeof(uint64_t);
    Finished finished;
    size_t resizes = 0;
    const auto step = [&](auto&& call) {
        const size_t left = finished.left_to_move(), bytes = finished.bytes();
        call();
        const size_t left_now = finished.left_to_move(), bytes_now = finished.bytes();
        const bool began = left_now > left;
        resizes += began;
        if (!began) {
            ASSERT_LE(left - left_now, Finished::kStep);
        }
        // The size may change by one block for each block that moves and, when a resize begins, by the list
        // of blocks.
        const size_t blocks = Finished::kStep + 2 + (began ? 2 * kMany / FinishedSlots::kBlock / 1024 : 0);
        ASSERT_LE(std::max(bytes, bytes_now) - std::min(bytes, bytes_now), blocks * kBlockBytes);
    };
    for (uint64_t i = 1; i <= kMany && !HasFatalFailure(); i++) {
        step([&] { finished.add({i << 14}, {}); });
        for (uint64_t back = 0; i % 1024 == 0 && back < kProbes; back++)
            ASSERT_TRUE(finished.has({(i - back * (i / kProbes)) << 14})) << i << " " << back;
    }
    EXPECT_EQ(resizes, 13u) << "from 1024 slots to 8 Mi";
    for (uint64_t i = 1; i <= kMany && !HasFatalFailure(); i++) {
        step([&] { finished.forget_oldest(); });
        if (i % 1024 == 0 && i < kMany) {
            ASSERT_FALSE(finished.has({i << 14}));
            ASSERT_TRUE(finished.has({(i + 1) << 14}));
            ASSERT_TRUE(finished.has({kMany << 14}));
        }
    }
    EXPECT_EQ(resizes, 26u);
}

}  // namespace
}  // namespace wss::kv::store
