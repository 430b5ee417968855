// SPDX-License-Identifier: Apache-2.0
// A source whose authentications keep failing must wait; other sources need not.
#include "target/block/auth_failures.h"

#include <gtest/gtest.h>

namespace wss::block {
namespace {

constexpr Nanoseconds kNone{};

TEST(AuthFailures, suspend_a_pair_for_a_time_that_doubles_up_to_its_limit) {
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

TEST(AuthFailures, do_not_suspend_another_name_or_another_source) {
    AuthFailures failures;
    for (int i = 0; i < 20; ++i) failures.failed("10.0.0.1", "alice", from_s(1));
    EXPECT_EQ(failures.suspended("10.0.0.1", "bob", from_s(1)), kNone);
    EXPECT_EQ(failures.suspended("10.0.0.2", "alice", from_s(1)), kNone);
}

TEST(AuthFailures, are_cleared_by_a_proof_or_by_time) {
    AuthFailures failures;
    Nanoseconds now = from_s(1000);
    for (int i = 0; i < 20; ++i) failures.failed("10.0.0.1", "alice", now);
    failures.proven("10.0.0.1", "alice");
    EXPECT_EQ(failures.suspended("10.0.0.1", "alice", now), kNone);
    for (int i = 0; i < 20; ++i) failures.failed("10.0.0.1", "alice", now);
    EXPECT_EQ(failures.failed("10.0.0.1", "alice", now + kFailureMemory).failures, 1u);
}

TEST(AuthFailures, of_other_names_and_sources_do_not_end_a_suspension) {
    AuthFailures failures;
    const Nanoseconds now = from_s(1000);
    for (int i = 0; i < 20; ++i) failures.failed("10.0.0.1", "alice", now);
    for (int i = 0; i < 5000; ++i) failures.failed("10.0.0.1", std::to_string(i), now + Nanoseconds{i});
    for (int i = 0; i < 5000; ++i) failures.failed("10.1." + std::to_string(i), "bob", now + Nanoseconds{i});
    EXPECT_GT(failures.suspended("10.0.0.1", "alice", now + from_s(1)), kNone);
}

TEST(AuthFailures, suspend_names_that_exceed_the_memory_of_a_source_together) {
    AuthFailures failures;
    const Nanoseconds now = from_s(1000);
    for (size_t i = 0; i < kFailedNames; ++i) failures.failed("10.0.0.1", std::to_string(i), now);
    for (uint32_t i = 0; i <= kAuthFailuresFree; ++i)
        failures.failed("10.0.0.1", "x" + std::to_string(i), now);
    EXPECT_EQ(failures.suspended("10.0.0.1", "alice", now), kSuspensionFirst);
    EXPECT_EQ(failures.suspended("10.0.0.1", "0", now), kNone) << "it is remembered, and failed once";
    EXPECT_EQ(failures.suspended("10.0.0.2", "alice", now), kNone) << "no other source is affected";
    failures.proven("10.0.0.1", "0");
    EXPECT_EQ(failures.suspended("10.0.0.1", "alice", now), kSuspensionFirst);
    EXPECT_EQ(failures.failed("10.0.0.1", "bob", now + kFailureMemory).suspended, kNone) << "failures expire";
}

TEST(AuthFailures, are_remembered_for_a_bounded_number_of_names_and_sources) {
    AuthFailures failures;
    Nanoseconds now = from_s(1000);
    for (int i = 0; i < 5000; ++i) failures.failed("10.0.0.1", std::to_string(i), now);
    EXPECT_EQ(failures.remembered(), kFailedNames);
    for (int i = 0; i < 5000; ++i, now = now + Nanoseconds{1})
        failures.failed("10.1." + std::to_string(i), "alice", now);
    EXPECT_LE(failures.remembered(), kFailedSources + kFailedNames);
    EXPECT_EQ(failures.failed("10.1.4999", "alice", now).failures, 2u) << "the latest failures are kept";
}

}  // namespace
}  // namespace wss::block
