// SPDX-License-Identifier: Apache-2.0
#include "lib/reactor/message_ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "lib/base/clock.h"

namespace wss::reactor {
namespace {

struct Inbox {
    std::vector<int> taken;
    static void take(void* self, const int& message) noexcept {
        static_cast<Inbox*>(self)->taken.push_back(message);
    }
};

TEST(MessageRing, delivers_messages_once_and_in_order) {
    Inbox inbox;
    MessageRing<int> ring(4, Inbox::take, &inbox);
    ASSERT_TRUE(ring.ready());
    std::vector<int> sent;
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < 1 + round % 4; ++i) {
            sent.push_back(round * 10 + i);
            ring.send(sent.back());
        }
        EXPECT_EQ(ring.poll(), static_cast<size_t>(1 + round % 4));
    }
    EXPECT_EQ(ring.poll(), 0u);
    EXPECT_EQ(inbox.taken, sent);
}

TEST(MessageRing, returns_a_message_that_is_taken_while_another_is_handled_only_once) {
    struct Nested {
        MessageRing<int>* ring = nullptr;
        std::vector<int> taken;
        static void take(void* self, const int& message) noexcept {
            auto& nested = *static_cast<Nested*>(self);
            nested.taken.push_back(message);
            if (message != 0) return;
            nested.ring->send(3);
            nested.ring->poll();
        }
    } nested;
    MessageRing<int> ring(8, Nested::take, &nested);
    nested.ring = &ring;
    for (int i = 0; i < 3; ++i) ring.send(i);
    ring.poll();
    ring.poll();
    EXPECT_EQ(nested.taken, (std::vector<int>{0, 1, 2, 3}));
}

TEST(MessageRing, keeps_a_receiver_awake_while_a_message_waits) {
    Inbox inbox;
    MessageRing<int> ring(4, Inbox::take, &inbox);
    EXPECT_TRUE(ring.arm());
    ring.send(1);
    EXPECT_FALSE(ring.arm());
    ring.poll();
    EXPECT_TRUE(ring.arm());
}

// Two reactors that sleep whenever they wait for each other.
TEST(MessageRing, lets_sleeping_reactors_wake_each_other) {
    static constexpr int kRounds = 2000;
    struct Player {
        explicit Player(SystemClock& clock) : reactor(clock, {.spin = Nanoseconds{0}}), ring(4, take, this) {
            reactor.add(ring);
        }
        ~Player() { reactor.remove(ring); }
        static void take(void* self, const int& message) noexcept {
            auto& player = *static_cast<Player*>(self);
            if (message < kRounds) player.other->ring.send(message + 1);
            if (message >= kRounds - 1) player.reactor.stop();
        }
        Reactor reactor;
        MessageRing<int> ring;
        Player* other = nullptr;
    };
    SystemClock clock;
    Player first(clock), second(clock);
    first.other = &second;
    second.other = &first;
    std::thread thread([&] { second.reactor.run(); });
    second.ring.send(0);
    first.reactor.run();
    thread.join();
}

}  // namespace
}  // namespace wss::reactor
