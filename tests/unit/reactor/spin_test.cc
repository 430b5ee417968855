// SPDX-License-Identifier: Apache-2.0
#include "lib/reactor/spin.h"

#include <gtest/gtest.h>

namespace wss::reactor {
namespace {

TEST(Spin, counts_the_runnable_threads) {
    EXPECT_EQ(threads_running("0.20 0.18 0.12 1/80 11206\n"), 1u);
    EXPECT_EQ(threads_running("31.46 22.70 20.12 17/172 30851\n"), 17u);
    EXPECT_EQ(threads_running(""), 0u);
    EXPECT_EQ(threads_running("what is this"), 0u);
}

}  // namespace
}  // namespace wss::reactor
