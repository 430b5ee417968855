// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/finished.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>

namespace wss::kv::store {
namespace {

TEST(KvFinishedSet, HasWhatWasAddedAndNotForgottenInTheOrderInWhichItEnded) {
    Finished finished;
    std::deque<uint64_t> queue;
    std::set<uint64_t> model;
    std::mt19937_64 random(7);
    for (int step = 0; step < 200'000; step++) {
        // Grows and shrinks by turns.
        const bool grows = random() % 100 < (step / 50'000 % 2 == 0 ? 70u : 20u);
        if (grows || queue.empty()) {
            const uint64_t value = random() % 100'000 + 1;  // dense: they collide
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

TEST(KvFinishedSet, CostsLittleAndGivesItsMemoryBack) {
    Finished finished;
    const size_t empty = finished.bytes();
    for (uint64_t i = 1; i <= 1'000'000; i++) finished.add({i << 14}, {});
    EXPECT_LT(finished.bytes(), 33'000'000u);
    while (finished.oldest() != nullptr) finished.forget_oldest();
    EXPECT_EQ(finished.bytes(), empty);
}

}  // namespace
}  // namespace wss::kv::store
