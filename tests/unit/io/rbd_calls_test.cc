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

TEST(RbdCalls, gives_each_call_memory_of_its_own) {
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

TEST(RbdCalls, that_came_back_last_is_used_first) {
    const auto calls = Calls::make();
    Call& first = calls->take();
    Call& second = calls->take();
    calls->give_back(first);
    calls->give_back(second);
    EXPECT_EQ(&calls->take(), &second);
    EXPECT_EQ(&calls->take(), &first);
}

TEST(RbdLanding, hands_over_calls_in_their_order) {
    const auto calls = Calls::make();
    std::vector<Call*> pushed;
    for (int i = 0; i < 3; ++i) calls->landing().push(*pushed.emplace_back(&calls->take()));
    Call* landed = calls->landing().take_all();
    for (Call* call : pushed) {
        ASSERT_EQ(landed, call);
        landed = landed->next;
    }
    EXPECT_EQ(landed, nullptr);
    EXPECT_EQ(calls->landing().take_all(), nullptr);
}

TEST(RbdLanding, wakes_a_reactor_that_sleeps_and_lets_none_sleep_beside_news) {
    const auto calls = Calls::make();
    Landing& landing = calls->landing();
    EXPECT_TRUE(landing.arm());
    EXPECT_FALSE(is_readable(landing.event_fd()));
    landing.push(calls->take());
    EXPECT_TRUE(is_readable(landing.event_fd()));
    EXPECT_FALSE(landing.arm());
    ASSERT_NE(landing.take_all(), nullptr);
    EXPECT_TRUE(landing.arm());
    EXPECT_FALSE(is_readable(landing.event_fd()));
}

// Also run under ThreadSanitizer.
TEST(RbdLanding, loses_nothing_that_several_threads_push) {
    const auto calls = Calls::make();
    constexpr size_t kThreads = 4, kEach = 32;
    std::vector<Call*> taken;
    for (size_t i = 0; i < kThreads * kEach; ++i) taken.push_back(&calls->take());
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            for (size_t i = 0; i < kEach; ++i) calls->landing().push(*taken[t * kEach + i]);
        });
    size_t landed = 0;
    while (landed < taken.size()) {
        for (Call* call = calls->landing().take_all(); call != nullptr; ++landed) {
            Call* next = call->next;
            calls->give_back(*call);
            call = next;
        }
        (void)calls->landing().arm();
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(calls->taken(), 0u);
}

TEST(RbdCalls, stay_as_many_while_librbd_keeps_some) {
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

TEST(RbdCalls, are_not_replaced_beyond_a_memory) {
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

TEST(RbdCalls, are_not_replaced_beyond_a_number) {
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

constexpr uint64_t kPiece = 4096;

struct LateCall {
    LateCall(LateCalls& calls, uint64_t offset, uint64_t length) {
        call.offset = offset;
        call.length = call.held = length;
        calls.add(call, kPiece);
    }
    Call call;
};

TEST(RbdLateCalls, touch_what_is_in_the_same_piece_of_an_object) {
    LateCalls calls;
    EXPECT_FALSE(calls.touch(0, 1 << 30, kPiece));
    LateCall late(calls, kPiece + 512, kPiece);
    EXPECT_FALSE(calls.touch(0, kPiece, kPiece));
    EXPECT_TRUE(calls.touch(0, kPiece + 1, kPiece));
    EXPECT_TRUE(calls.touch(kPiece, 512, kPiece));
    EXPECT_TRUE(calls.touch(3 * kPiece - 1, 1, kPiece));
    EXPECT_FALSE(calls.touch(3 * kPiece, 512, kPiece));
    calls.clear();
}

// Ranges within one block, over several and far apart, compared with the blocks that each call touches.
TEST(RbdLateCalls, touch_what_one_of_them_touches) {
    std::mt19937_64 random(20);
    for (int round = 0; round < 50; ++round) {
        LateCalls calls;
        std::vector<std::unique_ptr<LateCall>> late;
        auto range = [&random] {
            const uint64_t piece = random() % 4 * 1024 + random() % 8;
            return std::pair(piece * kPiece + random() % kPiece, 1 + random() % (random() % 8 * kPiece + 1));
        };
        for (int i = 0; i < 4; ++i) {
            const auto [offset, length] = range();
            late.push_back(std::make_unique<LateCall>(calls, offset, length));
        }
        for (int i = 0; i < 100; ++i) {
            const auto [offset, length] = range();
            bool touched = false;
            for (const auto& one : late)
                touched |= offset / kPiece <= (one->call.offset + one->call.length - 1) / kPiece &&
                           one->call.offset / kPiece <= (offset + length - 1) / kPiece;
            EXPECT_EQ(calls.touch(offset, length, kPiece), touched) << offset << " " << length;
        }
        EXPECT_TRUE(calls.touch(0, uint64_t{1} << 40, kPiece));
        calls.clear();
    }
}

TEST(RbdLateCalls, let_what_waits_know_that_one_is_over) {
    LateCalls calls;
    LateCall one(calls, 0, 512), other(calls, kPiece, 512);
    const uint64_t before = calls.ended();
    calls.remove(one.call);
    EXPECT_NE(calls.ended(), before);
    EXPECT_FALSE(calls.touch(0, 512, kPiece));
    EXPECT_TRUE(calls.touch(kPiece, 512, kPiece));
    EXPECT_EQ(calls.count(), 1u);
    calls.clear();
    EXPECT_FALSE(other.call.linked());
}

constexpr Nanoseconds kBegun = from_s(1000), kBefore = from_s(1), kLater = from_s(1010);

TEST(RbdThrottles, let_all_go_at_once_without_limits) {
    Throttles throttles;
    throttles.read({{"rbd_qos_iops_limit", "0"}, {"rbd_qos_iops_burst", "7"}, {"rbd_cache", "false"}},
                   kLater);
    EXPECT_FALSE(throttles.any());
    EXPECT_EQ(throttles.text(), "");
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 256, .bytes = 1 << 30}), kBegun);
}

TEST(RbdThrottles, let_the_last_of_what_librbd_has_go_when_the_lowest_limits_do) {
    Throttles throttles;
    throttles.read({{"rbd_qos_iops_limit", "10"}, {"rbd_qos_write_iops_limit", "2"}}, kBefore);
    EXPECT_EQ(throttles.text(), "rbd_qos_iops_limit = 10, rbd_qos_write_iops_limit = 2");
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 16, .bytes = 0}), kBegun + from_s(9));
    throttles.read({{"rbd_qos_bps_limit", "4096"}}, kBefore);
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 16, .bytes = 65536}), kBegun + from_s(17));
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 1, .bytes = 1ull << 40}), kBegun + from_s(24 * 3600));
}

TEST(RbdThrottles, that_change_leave_what_waits_as_much_time_as_the_new_ones_take) {
    Throttles throttles;
    throttles.read({{"rbd_qos_iops_limit", "1"}}, kBefore);
    throttles.read({{"rbd_qos_iops_limit", "1"}}, kLater);
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 64, .bytes = 0}), kBegun + from_s(65))
        << "none has changed";
    throttles.read({{"rbd_qos_iops_limit", "32"}}, kLater);
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 64, .bytes = 0}), kLater + from_s(3));
    throttles.read({}, kLater);
    EXPECT_EQ(throttles.let_go(kBegun, {.requests = 64, .bytes = 0}), kLater);
    EXPECT_EQ(throttles.let_go(kLater + kBegun, {.requests = 64, .bytes = 0}), kLater + kBegun);
}

}  // namespace
}  // namespace wss::io::rbd
