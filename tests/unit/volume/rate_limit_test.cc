// SPDX-License-Identifier: Apache-2.0
#include "target/volume/rate_limit.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace wss::volume {
namespace {

constexpr Nanoseconds kStart = from_s(1000);

// Returns how many commands of `bytes` may begin by `now`, if each is reserved as soon as the previous one
// begins.
int begun_by(RateLimiter& limiter, uint64_t bytes, Nanoseconds now) {
    int count = 0;
    while (limiter.reserve(bytes, now) <= now) ++count;
    limiter.cancel(bytes);
    return count;
}

TEST(RateLimiter, admits_operations_up_to_the_limit_and_its_burst) {
    RateLimiter limiter({.iops = 1000});
    EXPECT_EQ(begun_by(limiter, 4096, kStart), 101) << "100 ms of an idle volume, and one";
    EXPECT_EQ(begun_by(limiter, 4096, kStart), 0);
    EXPECT_EQ(begun_by(limiter, 4096, kStart + from_ms(50)), 50);
    EXPECT_EQ(begun_by(limiter, 4096, kStart + from_s(100)), 101) << "the burst is limited";
}

TEST(RateLimiter, admits_as_many_bytes_as_the_limit) {
    RateLimiter limiter({.bandwidth = 1'000'000});
    EXPECT_EQ(begun_by(limiter, 10'000, kStart), 11);
    EXPECT_EQ(begun_by(limiter, 10'000, kStart + from_s(1)), 11);
    EXPECT_EQ(begun_by(limiter, 1'000'000, kStart + from_s(2)), 1) << "one larger than the burst";
    EXPECT_EQ(begun_by(limiter, 1, kStart + from_ms(2899)), 0) << "its excess is paid back";
}

TEST(RateLimiter, applies_each_limit_separately) {
    RateLimiter limiter({.iops = 1000, .bandwidth = 1'000'000});
    EXPECT_EQ(begun_by(limiter, 100'000, kStart), 2) << "bytes";
    EXPECT_EQ(begun_by(limiter, 1, kStart + from_s(10)), 101) << "operations";
}

TEST(RateLimiter, returns_when_the_next_command_may_begin) {
    RateLimiter limiter({.iops = 10});
    (void)limiter.reserve(1, kStart);
    (void)limiter.reserve(1, kStart);
    EXPECT_EQ(limiter.reserve(1, kStart), kStart + from_ms(100));
    EXPECT_EQ(limiter.reserve(1, kStart), kStart + from_ms(200)) << "another reactor gets the next turn";
    limiter.cancel(1);
    EXPECT_EQ(limiter.reserve(1, kStart), kStart + from_ms(200));
}

TEST(RateLimiter, charges_the_command_that_begins_in_place_of_another) {
    RateLimiter limiter({.bandwidth = 1'000'000});
    (void)limiter.reserve(1'000'000, kStart);
    limiter.exchange(1'000'000, 500'000);
    EXPECT_EQ(limiter.reserve(1, kStart), kStart + from_ms(400));
}

TEST(RateLimiter, delays_later_commands_by_earlier_charges_but_not_for_ever) {
    RateLimiter limiter({.iops = 10, .bandwidth = 1'000'000});
    limiter.charge(1, 500'000, kStart);
    EXPECT_EQ(limiter.reserve(1, kStart), kStart + from_ms(400)) << "100 ms were saved up";
    limiter.charge(1000, 1, kStart);
    limiter.charge(0, 100'000'000, kStart);
    EXPECT_EQ(limiter.reserve(1, kStart), kStart + RateLimiter::kDebtMax);
    RateLimiter none({.iops = 10});
    none.charge(0, 1 << 30, kStart);
    EXPECT_LE(none.reserve(1, kStart), kStart) << "bytes are not limited";
}

TEST(RateLimiter, returns_how_long_many_commands_take) {
    RateLimiter limiter({.iops = 10, .bandwidth = 1'000'000});
    EXPECT_EQ(limiter.time_for(25, 100), from_ms(2500));
    EXPECT_EQ(limiter.time_for(25, 5'000'000), from_s(5));
    EXPECT_EQ(RateLimiter({.iops = 1}).time_for(UINT64_MAX, UINT64_MAX), from_s(3600)) << "very long";
    EXPECT_EQ(RateLimiter({.iops = UINT64_MAX}).time_for(1, UINT64_MAX), Nanoseconds{1});
}

TEST(RateLimiter, handles_the_largest_numbers) {
    RateLimiter fast({.iops = UINT64_MAX, .bandwidth = UINT64_MAX});
    for (int i = 0; i < 1000; ++i) EXPECT_LE(fast.reserve(1 << 20, kStart), kStart);
    RateLimiter slow({.iops = 1, .bandwidth = kBandwidthMin});
    Nanoseconds last{};
    for (int i = 0; i < 1000; ++i) {
        const Nanoseconds next = slow.reserve(UINT64_MAX, kStart);
        EXPECT_GT(next, last);
        last = next;
    }
}

TEST(RateLimiter, applies_across_threads) {
    RateLimiter limiter({.iops = 1'000'000});
    std::vector<std::thread> threads;
    std::atomic<int> begun{0};
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int n = 0; n < 100'000; ++n)
                if (limiter.reserve(1, kStart) <= kStart) ++begun;
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(begun, 100'001);
}

TEST(RateLimits, are_refused_if_they_are_invalid) {
    EXPECT_EQ(*parse_iops("none"), 0u);
    EXPECT_EQ(*parse_iops("0"), 0u);
    EXPECT_EQ(*parse_iops("18446744073709551615"), UINT64_MAX);
    EXPECT_EQ(*parse_bandwidth("100M"), uint64_t{100} << 20);
    EXPECT_EQ(*parse_bandwidth("none"), 0u);
    for (const char* bad : {"", "-1", "18446744073709551616", "1.5", "10K", "many", "1 "})
        EXPECT_FALSE(parse_iops(bad)) << bad;
    for (const char* bad : {"", "-1", "18446744073709551616", "16E", "1X", "-100M"})
        EXPECT_FALSE(parse_bandwidth(bad)) << bad;
    EXPECT_TRUE(check_limits({}));
    EXPECT_TRUE(check_limits({.iops = 1, .bandwidth = kBandwidthMin}));
    EXPECT_FALSE(check_limits({.bandwidth = kBandwidthMin - 1}));
}

}  // namespace
}  // namespace wss::volume
