// SPDX-License-Identifier: Apache-2.0
// Calls of a queue into librbd that outlast their requests, and the requests that they delay.
#include "lib/io/rbd/calls.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "lib/io/rbd/late_calls.h"
#include "lib/io/rbd/throttles.h"

namespace wss::io::rbd {
namespace {

bool is_readable(int fd) {
    pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&one, 1, 0) == 1;
}

TEST(RbdCalls, have_separate_memory) {
    const auto calls = Calls::make();
    ASSERT_NE(calls, nullptr);
    std::vector<Call*> taken;
    while (calls->has_free()) taken.push_back(&calls->take());
    ASSERT_EQ(taken.size(), Calls::kDepth);
    for (Call* call : taken) call->memory[0] = call->memory[Call::kMemory - 1] = std::byte{1};
    for (size_t i = 0; i < taken.size(); ++i) taken[i]->memory[0] = std::byte(i);
    for (size_t i = 0; i < taken.size(); ++i) {
        EXPECT_EQ(taken[i]->memory[0], std::byte(i));
        EXPECT_EQ(taken[i]->memory[Call::kMemory - 1], std::byte{1});
    }
    for (Call* call : taken) calls->give_back(*call);
    EXPECT_EQ(calls->taken(), 0u);
}

TEST(RbdCalls, are_reused_starting_with_the_last_one_returned) {
    const auto calls = Calls::make();
    Call& first = calls->take();
    Call& second = calls->take();
    calls->give_back(first);
    calls->give_back(second);
    EXPECT_EQ(&calls->take(), &second);
    EXPECT_EQ(&calls->take(), &first);
}

TEST(RbdCompletionStack, returns_calls_in_their_order) {
    const auto calls = Calls::make();
    std::vector<Call*> pushed;
    for (int i = 0; i < 3; ++i) calls->completions().push(*pushed.emplace_back(&calls->take()));
    Call* completed = calls->completions().take_all();
    for (Call* call : pushed) {
        ASSERT_EQ(completed, call);
        completed = completed->next;
    }
    EXPECT_EQ(completed, nullptr);
    EXPECT_EQ(calls->completions().take_all(), nullptr);
}

TEST(RbdCompletionStack, wakes_a_sleeping_reactor_and_lets_none_sleep_with_calls_pending) {
    const auto calls = Calls::make();
    CompletionStack& completions = calls->completions();
    EXPECT_TRUE(completions.arm());
    EXPECT_FALSE(is_readable(completions.event_fd()));
    completions.push(calls->take());
    EXPECT_TRUE(is_readable(completions.event_fd()));
    EXPECT_FALSE(completions.arm());
    ASSERT_NE(completions.take_all(), nullptr);
    EXPECT_TRUE(completions.arm());
    EXPECT_FALSE(is_readable(completions.event_fd()));
}

// This test also runs under ThreadSanitizer.
TEST(RbdCompletionStack, loses_no_call_that_several_threads_push) {
    const auto calls = Calls::make();
    constexpr size_t kThreads = 4, kEach = 32;
    std::vector<Call*> taken;
    for (size_t i = 0; i < kThreads * kEach; ++i) taken.push_back(&calls->take());
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            for (size_t i = 0; i < kEach; ++i) calls->completions().push(*taken[t * kEach + i]);
        });
    size_t completed = 0;
    while (completed < taken.size()) {
        for (Call* call = calls->completions().take_all(); call != nullptr; ++completed) {
            Call* next = call->next;
            calls->give_back(*call);
            call = next;
        }
        (void)calls->completions().arm();
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(calls->taken(), 0u);
}

TEST(RbdCalls, keep_a_constant_depth_when_a_slow_call_is_replaced) {
    const auto calls = Calls::make();
    Call& slow = calls->take();
    calls->replace(slow);
    calls->replace(slow);
    std::vector<Call*> taken;
    while (calls->has_free()) taken.push_back(&calls->take());
    EXPECT_EQ(taken.size(), Calls::kDepth);
    calls->give_back(slow);
    EXPECT_FALSE(calls->has_free());
    for (Call* call : taken) calls->give_back(*call);
    EXPECT_EQ(calls->taken(), 0u);
}

TEST(RbdCalls, are_not_replaced_beyond_a_memory_limit) {
    const auto calls = Calls::make();
    Call& large = calls->take();
    large.held = Calls::kMore.bytes;
    calls->replace(large);
    EXPECT_TRUE(large.replaced);
    Call& small = calls->take();
    small.held = 1;
    calls->replace(small);
    EXPECT_FALSE(small.replaced);
    calls->give_back(large);
    calls->replace(small);
    EXPECT_TRUE(small.replaced);
    calls->give_back(small);
}

TEST(RbdCalls, are_not_replaced_beyond_a_maximum_number) {
    const auto calls = Calls::make();
    std::vector<Call*> slow;
    for (size_t i = 0; i < Calls::kDepth + Calls::kMore.requests; ++i) {
        ASSERT_TRUE(calls->has_free());
        calls->replace(*slow.emplace_back(&calls->take()));
    }
    EXPECT_FALSE(calls->has_free());
    for (Call* call : slow) calls->give_back(*call);
    size_t free = 0;
    for (; calls->has_free(); ++free) calls->take();
    EXPECT_EQ(free, Calls::kDepth);
}

constexpr uint64_t kUnit = 4096;

struct LateCall {
    LateCall(LateCalls& calls, uint64_t offset, uint64_t length) {
        call.offset = offset;
        call.length = call.held = length;
        calls.add(call, kUnit);
    }
    Call call;
};

TEST(RbdLateCalls, conflict_with_requests_in_the_same_stripe_unit) {
    LateCalls calls;
    EXPECT_FALSE(calls.touch(0, 1 << 30, kUnit));
    LateCall late(calls, kUnit + 512, kUnit);
    EXPECT_FALSE(calls.touch(0, kUnit, kUnit));
    EXPECT_TRUE(calls.touch(0, kUnit + 1, kUnit));
    EXPECT_TRUE(calls.touch(kUnit, 512, kUnit));
    EXPECT_TRUE(calls.touch(3 * kUnit - 1, 1, kUnit));
    EXPECT_FALSE(calls.touch(3 * kUnit, 512, kUnit));
    calls.clear();
}

// Ranges within one stripe unit, across several units and far apart, compared with the units of each call.
TEST(RbdLateCalls, conflict_with_a_request_if_any_of_them_does) {
    std::mt19937_64 random(20);
    for (int round = 0; round < 50; ++round) {
        LateCalls calls;
        std::vector<std::unique_ptr<LateCall>> late;
        auto range = [&random] {
            const uint64_t unit = random() % 4 * 1024 + random() % 8;
            return std::pair(unit * kUnit + random() % kUnit, 1 + random() % (random() % 8 * kUnit + 1));
        };
        for (int i = 0; i < 4; ++i) {
            const auto [offset, length] = range();
            late.push_back(std::make_unique<LateCall>(calls, offset, length));
        }
        for (int i = 0; i < 100; ++i) {
            const auto [offset, length] = range();
            bool touched = false;
            for (const auto& one : late)
                touched |= offset / kUnit <= (one->call.offset + one->call.length - 1) / kUnit &&
                           one->call.offset / kUnit <= (offset + length - 1) / kUnit;
            EXPECT_EQ(calls.touch(offset, length, kUnit), touched) << offset << " " << length;
        }
        EXPECT_TRUE(calls.touch(0, uint64_t{1} << 40, kUnit));
        calls.clear();
    }
}

TEST(RbdLateCalls, notify_waiting_requests_when_a_call_ends) {
    LateCalls calls;
    LateCall one(calls, 0, 512), other(calls, kUnit, 512);
    const uint64_t before = calls.ended();
    calls.remove(one.call);
    EXPECT_NE(calls.ended(), before);
    EXPECT_FALSE(calls.touch(0, 512, kUnit));
    EXPECT_TRUE(calls.touch(kUnit, 512, kUnit));
    EXPECT_EQ(calls.count(), 1u);
    calls.clear();
    EXPECT_FALSE(other.call.linked());
}

constexpr Nanoseconds kBegun = from_s(1000), kBefore = from_s(1), kLater = from_s(1010);

TEST(RbdThrottles, release_all_requests_at_once_without_limits) {
    Throttles throttles;
    throttles.read({{"rbd_qos_iops_limit", "0"}, {"rbd_qos_iops_burst", "7"}, {"rbd_cache", "false"}},
                   kLater);
    EXPECT_FALSE(throttles.any());
    EXPECT_EQ(throttles.text(), "");
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 256, .bytes = 1 << 30}), kBegun);
}

TEST(RbdThrottles, release_the_last_request_as_fast_as_the_lowest_limits_permit) {
    Throttles throttles;
    throttles.read({{"rbd_qos_iops_limit", "10"}, {"rbd_qos_write_iops_limit", "2"}}, kBefore);
    EXPECT_EQ(throttles.text(), "rbd_qos_iops_limit = 10, rbd_qos_write_iops_limit = 2");
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 16, .bytes = 0}), kBegun + from_s(9));
    throttles.read({{"rbd_qos_bps_limit", "4096"}}, kBefore);
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 16, .bytes = 65536}), kBegun + from_s(17));
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 1, .bytes = 1ull << 40}), kBegun + from_s(24 * 3600));
}

TEST(RbdThrottles, leave_waiting_requests_as_much_time_as_changed_limits_require) {
    Throttles throttles;
    throttles.read({{"rbd_qos_iops_limit", "1"}}, kBefore);
    throttles.read({{"rbd_qos_iops_limit", "1"}}, kLater);
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 64, .bytes = 0}), kBegun + from_s(65))
        << "no limit has changed";
    throttles.read({{"rbd_qos_iops_limit", "32"}}, kLater);
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 64, .bytes = 0}), kLater + from_s(3));
    throttles.read({}, kLater);
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 64, .bytes = 0}), kLater);
    EXPECT_EQ(throttles.let_go(kLater + kBegun, {.requests = 64, .bytes = 0}), kLater + kBegun);
}

}  // namespace
}  // namespace wss::io::rbd
