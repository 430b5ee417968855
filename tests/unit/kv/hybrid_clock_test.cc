// SPDX-License-Identifier: Apache-2.0
// The clock of a client: how it follows timestamps of others, and how it gets ahead of them.
#include <gtest/gtest.h>

#include <set>

#include "lib/kv/hlc.h"

namespace wss::kv::test {

struct SetClock final : WallClock {
    uint64_t ticks_now = 1'000'000'000;
    uint64_t unix_us() noexcept override { return kTicksEpoch_us + ticks_now; }
};

struct HybridClocks : testing::Test {
    static constexpr uint64_t kSecond = 1'000'000;
    SetClock wall;
    HybridClock clock{wall};
    void SetUp() override { clock.set_client(7); }
    void observe(uint64_t ahead) { clock.observe(Timestamp::make(wall.ticks() + ahead, 9)); }
};

TEST_F(HybridClocks, issue_growing_timestamps_even_if_the_time_of_day_is_set_back) {
    const Timestamp before = clock.next();
    wall.ticks_now -= kSecond;
    EXPECT_GT(clock.next(), before);
    EXPECT_EQ(clock.next().client(), 7u);
}

// A lead that counted from the client's own time would leave a slow clock behind the writer that it follows.
TEST_F(HybridClocks, count_a_lead_from_the_latest_timestamp_of_others) {
    observe(5 * kSecond);
    const uint64_t others = wall.ticks() + 5 * kSecond;
    const Timestamp mine = clock.next(1000);
    EXPECT_GE(mine.ticks(), others + 1000);
    EXPECT_LE(mine.ticks(), others + 1010);
}

TEST_F(HybridClocks, do_not_run_away_from_the_time_of_day_because_of_mutual_leads) {
    for (int i = 0; i < 1000; ++i) {
        const Timestamp mine = clock.next(kSecond);
        clock.observe(Timestamp::make(mine.ticks() + kSecond, 9));
    }
    EXPECT_LE(clock.next(kSecond).ticks(), wall.ticks() + kFollowMax_ticks + 2000);
}

// A clock that is wrong by an hour does not spread: only the write that must be later than its timestamp is
// affected.
TEST_F(HybridClocks, let_one_write_pass_a_timestamp_far_ahead_and_do_not_follow_it) {
    const Timestamp theirs = Timestamp::make(wall.ticks() + 3600 * kSecond, 9);
    clock.observe(theirs);
    const Timestamp far = clock.next_after(theirs);
    EXPECT_GT(far, theirs);
    EXPECT_LE(clock.next().ticks(), wall.ticks() + kFollowMax_ticks + 2);
    EXPECT_GT(clock.next_after(theirs), far);
    EXPECT_EQ(clock.issued().ticks(), far.ticks() + 2);
}

// A partition that names the largest timestamp must not block writes to others.
TEST_F(HybridClocks, keep_a_timestamp_far_ahead_from_affecting_writes_that_must_pass_a_nearer_one) {
    clock.next_after({UINT64_MAX});
    const Timestamp theirs = Timestamp::make(wall.ticks() + 3600 * kSecond, 9);
    const Timestamp mine = clock.next_after(theirs);
    EXPECT_GT(mine, theirs);
    EXPECT_LE(mine.ticks(), theirs.ticks() + 2);
}

TEST_F(HybridClocks, never_issue_a_timestamp_far_ahead_twice) {
    std::set<uint64_t> issued;
    size_t count = 0;
    for (uint64_t round = 0; round < 3; ++round)
        for (uint64_t far = 1; far <= 300; ++far, ++count)
            issued.insert(clock.next_after(Timestamp::make(wall.ticks() + far * 50 * kSecond, 9)).value);
    EXPECT_EQ(issued.size(), count);
}

TEST_F(HybridClocks, do_not_issue_timestamps_beyond_the_bound_again_when_their_time_comes) {
    std::set<uint64_t> issued;
    for (int i = 0; i < 100; ++i)
        issued.insert(clock.next_after(Timestamp::make(wall.ticks() + 40 * kSecond, 9)).value);
    wall.ticks_now += 40 * kSecond - 50;
    for (int i = 0; i < 100; ++i) issued.insert(clock.next().value);
    EXPECT_EQ(issued.size(), 200u);
}

}  // namespace wss::kv::test
