// SPDX-License-Identifier: Apache-2.0
// Log lines of one flooding source are dropped; those of other sources are written.
#include "lib/base/source_limiter.h"

#include <gtest/gtest.h>

#include "lib/base/clock.h"

namespace wss::log {
namespace {

// Number of seconds of the clock since `begun`, including those that are not complete.
size_t seconds_since(Nanoseconds begun) {
    return static_cast<size_t>((SystemClock().now() - begun).count / from_s(1).count) + 2;
}

TEST(SourceLimiter, limits_a_flooding_source_and_not_another_one) {
    SourceLimiter limiter(10);
    const Nanoseconds begun = SystemClock().now();
    size_t lines = 0;
    for (int i = 0; i < 1000; ++i) lines += limiter.allow("10.0.0.1");
    EXPECT_GE(lines, 10u);
    EXPECT_LE(lines, 10u * seconds_since(begun));
    EXPECT_TRUE(limiter.allow("10.0.0.2"));
}

TEST(SourceLimiter, bounds_lines_and_memory_whatever_the_number_of_sources) {
    SourceLimiter limiter(10);
    const Nanoseconds begun = SystemClock().now();
    size_t lines = 0;
    for (int i = 0; i < 10000; ++i) lines += limiter.allow(std::to_string(i));
    EXPECT_LE(lines, SourceLimiter::kSourcesLimit * seconds_since(begun));
    EXPECT_LE(limiter.sources(), 256u);
}

}  // namespace
}  // namespace wss::log
