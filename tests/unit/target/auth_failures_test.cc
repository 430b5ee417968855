// SPDX-License-Identifier: Apache-2.0
// Who keeps failing to authenticate waits, and nobody else does.
#include "target/block/auth_failures.h"

#include <gtest/gtest.h>

namespace wss::block {
namespace {

constexpr Nanoseconds kNone{};

TEST(AuthFailures, a_pair_is_suspended_for_a_time_that_doubles_up_to_its_limit) {
    AuthFailures failures;
    Nanoseconds now = from_s(1000);
    for (uint32_t i = 1; i <= kAuthFailuresFree; ++i) {
        auto outcome = failures.failed("10.0.0.1", "alice", now);
        EXPECT_EQ(outcome.failures, i);
        EXPECT_EQ(outcome.suspended, kNone);
    }
    EXPECT_EQ(failures.failed("10.0.0.1", "alice", now).suspended, from_s(1));
    EXPECT_EQ(failures.suspended("10.0.0.1", "alice", now), from_s(1));
    EXPECT_EQ(failures.suspended("10.0.0.1", "alice", now + from_s(1)), kNone);
    EXPECT_EQ(failures.failed("10.0.0.1", "alice", now).suspended, from_s(2));
    for (int i = 0; i < 100; ++i) failures.failed("10.0.0.1", "alice", now);
    EXPECT_EQ(failures.suspended("10.0.0.1", "alice", now), kSuspensionMax);
}

TEST(AuthFailures, another_name_and_another_source_are_not_suspended) {
    AuthFailures failures;
    for (int i = 0; i < 20; ++i) failures.failed("10.0.0.1", "alice", from_s(1));
    EXPECT_EQ(failures.suspended("10.0.0.1", "bob", from_s(1)), kNone);
    EXPECT_EQ(failures.suspended("10.0.0.2", "alice", from_s(1)), kNone);
}

TEST(AuthFailures, a_proof_and_time_forgive) {
    AuthFailures failures;
    Nanoseconds now = from_s(1000);
    for (int i = 0; i < 20; ++i) failures.failed("10.0.0.1", "alice", now);
    failures.proven("10.0.0.1", "alice");
    EXPECT_EQ(failures.suspended("10.0.0.1", "alice", now), kNone);
    for (int i = 0; i < 20; ++i) failures.failed("10.0.0.1", "alice", now);
    EXPECT_EQ(failures.failed("10.0.0.1", "alice", now + kFailureMemory).failures, 1u);
}

TEST(AuthFailures, however_many_names_fail_a_bounded_number_is_remembered) {
    AuthFailures failures;
    for (int i = 0; i < 5000; ++i) failures.failed("10.0.0.1", std::to_string(i), from_s(1) + Nanoseconds{i});
    EXPECT_EQ(failures.remembered(), kFailuresRemembered);
    EXPECT_EQ(failures.failed("10.0.0.1", "4999", from_s(2)).failures, 2u) << "the latest are kept";
}

}  // namespace
}  // namespace wss::block
