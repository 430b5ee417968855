// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/lock_table.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

struct Told {
    std::optional<LockAnswer> answer;
    LockDone done() {
        return {[](void* context, LockAnswer told) noexcept { static_cast<Told*>(context)->answer = told; },
                this};
    }
};

struct Locks {
    HandClock clock;
    LockTable table{clock};
    LockAnswer take(uint64_t owner, LockMode mode, bool wait = false, LockDone done = {}) {
        return table.lock({.key = "x", .owner = owner, .mode = mode, .wait = wait}, done);
    }
};
constexpr auto kS = LockMode::kShared;
constexpr auto kX = LockMode::kExclusive;

TEST(KvLocks, of_shared_holders_exclude_a_writer_and_those_of_a_writer_exclude_everyone) {
    Locks locks;
    EXPECT_EQ(locks.take(1, kS), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(2, kS), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(3, kX), LockAnswer::kRefused);
    locks.table.unlock_all(1);
    locks.table.unlock_all(2);
    EXPECT_EQ(locks.take(3, kX), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(1, kS), LockAnswer::kRefused);
    EXPECT_EQ(locks.take(3, kX), LockAnswer::kGranted) << "its own lock";
    locks.table.unlock("x", 3);
    EXPECT_EQ(locks.table.held(), 0u);
}

TEST(KvLocks, are_granted_to_waiters_in_order_without_overtaking) {
    Locks locks;
    Told writer;
    Told reader;
    EXPECT_EQ(locks.take(1, kS), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(2, kX, true, writer.done()), LockAnswer::kWaiting);
    EXPECT_EQ(locks.take(3, kS, true, reader.done()), LockAnswer::kWaiting);
    EXPECT_EQ(locks.take(4, kS), LockAnswer::kRefused) << "a writer waits";
    locks.table.unlock_all(1);
    EXPECT_EQ(writer.answer, LockAnswer::kGranted);
    EXPECT_FALSE(reader.answer.has_value());
    locks.table.unlock_all(2);
    EXPECT_EQ(reader.answer, LockAnswer::kGranted);
}

// The work must not grow with the locks of all others: a hundred thousand scans of as many locks would take
// minutes.
TEST(KvLocks, of_an_owner_that_ends_cost_no_more_work_because_of_those_of_others) {
    Locks locks;
    Told waiter;
    EXPECT_EQ(locks.take(1, kX), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(2, kX, true, waiter.done()), LockAnswer::kWaiting);
    constexpr uint64_t kOthers = 100'000;
    for (uint64_t i = 0; i < kOthers; ++i)
        EXPECT_EQ(locks.table.lock({.key = "key" + std::to_string(i), .owner = 3 + i / 1000, .mode = kX}, {}),
                  LockAnswer::kGranted);
    SystemClock clock;
    const Nanoseconds limit = clock.now() + from_s(20);
    uint64_t ended = 0;
    for (; ended < kOthers && clock.now() < limit; ++ended) {
        Told nobody;
        locks.table.unlock_all(2 * kOthers + ended);
        locks.table.forget(&nobody);
    }
    EXPECT_EQ(ended, kOthers);
    EXPECT_FALSE(waiter.answer.has_value());
    locks.table.unlock_all(1);
    EXPECT_EQ(waiter.answer, LockAnswer::kGranted);
}

TEST(KvLocks, limit_the_waits_of_an_owner) {
    Locks locks;
    Told waits[LockTable::kOwnerMax + 1];
    const auto wait = [&](size_t i) {
        const std::string key = "key" + std::to_string(i);
        EXPECT_EQ(locks.table.lock({.key = key, .owner = 100 + i, .mode = kX}, {}), LockAnswer::kGranted);
        return locks.table.lock({.key = key, .owner = 1, .mode = kX, .wait = true}, waits[i].done());
    };
    for (size_t i = 0; i < LockTable::kOwnerMax; ++i) EXPECT_EQ(wait(i), LockAnswer::kWaiting);
    EXPECT_EQ(wait(LockTable::kOwnerMax), LockAnswer::kFull);
    locks.table.unlock_all(1);
    EXPECT_EQ(locks.table.waiting(), 0u);
}

TEST(KvLocks, keep_the_other_waits_of_an_owner_when_one_is_forgotten) {
    Locks locks;
    Told first, second;
    EXPECT_EQ(locks.take(1, kX), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(2, kX, true, first.done()), LockAnswer::kWaiting);
    EXPECT_EQ(locks.take(2, kX, true, second.done()), LockAnswer::kWaiting) << "the same owner again";
    EXPECT_EQ(locks.table.waiting(), 2u);
    locks.table.forget(&first);
    EXPECT_EQ(locks.table.waiting(), 1u);
    locks.table.unlock_all(2);
    EXPECT_EQ(locks.table.waiting(), 0u);
    locks.table.unlock_all(1);
    EXPECT_EQ(locks.table.held(), 0u);
    EXPECT_FALSE(first.answer.has_value());
    EXPECT_EQ(second.answer, LockAnswer::kRefused) << "the remaining waiter is notified of the end";
}

TEST(KvLocks, of_a_dead_holder_end_with_its_lease) {
    Locks locks;
    Told told;
    EXPECT_EQ(locks.take(1, kX), LockAnswer::kGranted);
    locks.clock.pass(from_s(4));
    EXPECT_EQ(locks.take(2, kX, true, told.done()), LockAnswer::kWaiting);
    locks.clock.pass(from_s(2));
    EXPECT_FALSE(locks.table.holds("x", 1, kX));
    locks.table.expire();
    EXPECT_EQ(told.answer, LockAnswer::kGranted);
    EXPECT_TRUE(locks.table.holds("x", 2, kX));
}

TEST(KvLocks, notify_a_waiter_that_has_waited_too_long) {
    Locks locks;
    Told told;
    EXPECT_EQ(locks.take(1, kX), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(2, kX, true, told.done()), LockAnswer::kWaiting);
    for (int i = 0; i < 3; i++) {
        locks.clock.pass(from_s(2));
        EXPECT_EQ(locks.table.lock({.key = "x", .owner = 1, .mode = kX}, {}), LockAnswer::kGranted)
            << "renewed";
        locks.table.expire();
    }
    EXPECT_EQ(told.answer, LockAnswer::kTimedOut);
    EXPECT_EQ(locks.table.waiting(), 0u);
}

TEST(KvLocks, let_a_sole_shared_holder_become_exclusive_but_not_one_of_two) {
    Locks locks;
    EXPECT_EQ(locks.take(1, kS), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(1, kX), LockAnswer::kGranted);
    EXPECT_TRUE(locks.table.holds("x", 1, kX));
    locks.table.unlock_all(1);
    EXPECT_EQ(locks.take(1, kS), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(2, kS), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(1, kX, true), LockAnswer::kRefused);
}

TEST(KvLocks, make_one_lease_of_two_granted_waits_of_an_owner) {
    Locks locks;
    EXPECT_EQ(locks.take(1, kX), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(2, kS, true), LockAnswer::kWaiting);
    EXPECT_EQ(locks.take(2, kS, true), LockAnswer::kWaiting);
    locks.table.unlock_all(1);
    EXPECT_EQ(locks.table.held(), 1u);
    locks.clock.pass(from_s(6));
    EXPECT_EQ(locks.table.expire(), 1u);
    EXPECT_EQ(locks.table.held(), 0u);
    EXPECT_EQ(locks.take(3, kX), LockAnswer::kGranted);
}

TEST(KvLocks, do_not_notify_a_forgotten_waiter) {
    Locks locks;
    Told told;
    EXPECT_EQ(locks.take(1, kX), LockAnswer::kGranted);
    EXPECT_EQ(locks.take(2, kX, true, told.done()), LockAnswer::kWaiting);
    locks.table.forget(&told);
    locks.table.unlock_all(1);
    EXPECT_FALSE(told.answer.has_value());
    EXPECT_EQ(locks.table.held() + locks.table.waiting(), 0u);
}

TEST(KvLocks, of_one_owner_are_no_more_than_a_transaction_needs) {
    Locks locks;
    LockAnswer answer = LockAnswer::kGranted;
    for (size_t i = 0; i < LockTable::kOwnerMax; i++)
        answer = locks.table.lock({.key = "key" + std::to_string(i), .owner = 1, .mode = kX}, {});
    EXPECT_EQ(answer, LockAnswer::kGranted);
    EXPECT_EQ(locks.take(1, kX), LockAnswer::kFull);
    EXPECT_EQ(locks.table.refused(), 1u);
    EXPECT_EQ(locks.table.lock({.key = "key0", .owner = 1, .mode = kX}, {}), LockAnswer::kGranted)
        << "its own lock";
    EXPECT_EQ(locks.take(2, kX), LockAnswer::kGranted);
    locks.table.unlock_all(1);
    EXPECT_EQ(locks.table.held(), 1u);
}

TEST(KvLocks, check_a_bounded_number_of_leases_in_each_call_of_expire) {
    Locks locks;
    const size_t count = LockTable::kLooksMax * 5 / 2;
    for (size_t i = 0; i < count; i++)
        locks.table.lock({.key = "key" + std::to_string(i), .owner = i + 1, .mode = kX}, {});
    locks.clock.pass(from_s(6));
    for (size_t left : {count - LockTable::kLooksMax, count - 2 * LockTable::kLooksMax, size_t{0}}) {
        locks.table.expire();
        EXPECT_EQ(locks.table.held(), left);
        locks.clock.pass(from_ms(1));
    }
}

}  // namespace
}  // namespace wss::kv::store
