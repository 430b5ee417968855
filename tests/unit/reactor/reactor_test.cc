// SPDX-License-Identifier: Apache-2.0
// The reactor's guarantees: order of timers, sleep only when idle, posts from other threads.
#include "lib/reactor/reactor.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <ctime>
#include <thread>

#include "tests/support/looks.h"
#include "tests/support/no_descriptors.h"

namespace wss::reactor {
namespace {

class ManualClock final : public Clock {
  public:
    Nanoseconds now() noexcept override { return time; }
    Nanoseconds time{0};
};

struct Firing {
    std::vector<int>* log;
    int id;
    static void fire(void* context) noexcept {
        auto* self = static_cast<Firing*>(context);
        self->log->push_back(self->id);
    }
};

TEST(Reactor, without_descriptors_reports_that_and_only_polls) {
    ManualClock clock;
    const test::NoDescriptors none;
    Reactor reactor(clock);
    EXPECT_EQ(reactor.ready().code(), Code::kExhausted);
    bool ran = false;
    reactor.post([&] { ran = true; });
    reactor.step();
    EXPECT_TRUE(ran);
}

TEST(Reactor, fires_timers_in_order_of_their_deadlines_and_never_early) {
    ManualClock clock;
    Reactor reactor(clock);
    std::vector<int> log;
    Firing firings[3] = {{&log, 0}, {&log, 1}, {&log, 2}};
    Timer a(Firing::fire, &firings[0]), b(Firing::fire, &firings[1]), c(Firing::fire, &firings[2]);
    reactor.set(a, from_ms(30));
    reactor.set(b, from_ms(10));
    reactor.set(c, from_ms(10));
    EXPECT_EQ(reactor.next_deadline(), from_ms(10));
    clock.time = from_ms(10) - Nanoseconds{1};
    reactor.step();
    EXPECT_TRUE(log.empty());
    clock.time = from_ms(100);
    reactor.step();
    EXPECT_EQ(log, (std::vector<int>{1, 2, 0}));
}

TEST(Reactor, does_not_fire_a_cancelled_timer_and_fires_a_reset_one_once) {
    ManualClock clock;
    Reactor reactor(clock);
    std::vector<int> log;
    Firing firings[2] = {{&log, 0}, {&log, 1}};
    Timer cancelled(Firing::fire, &firings[0]), moved(Firing::fire, &firings[1]);
    reactor.set(cancelled, from_ms(1));
    reactor.set(moved, from_ms(1));
    reactor.set(moved, from_ms(5));
    reactor.cancel(cancelled);
    clock.time = from_ms(2);
    reactor.step();
    EXPECT_TRUE(log.empty());
    clock.time = from_ms(5);
    reactor.step();
    reactor.step();
    EXPECT_EQ(log, (std::vector<int>{1}));
}

TEST(Reactor, that_sleeps_is_woken_by_tasks_posted_from_another_thread) {
    SystemClock clock;
    Reactor reactor(clock);
    std::thread::id ran_on;
    std::thread poster([&] {
        reactor.post([&] {
            ran_on = std::this_thread::get_id();
            reactor.stop();
        });
    });
    reactor.run();
    poster.join();
    EXPECT_EQ(ran_on, std::this_thread::get_id());
}

class EventSource final : public Source {
  public:
    explicit EventSource(Reactor& reactor) : reactor_(reactor), fd_(eventfd(0, EFD_NONBLOCK)) {}
    ~EventSource() override { close(fd_); }
    size_t poll() noexcept override {
        uint64_t value;
        if (read(fd_, &value, sizeof value) != sizeof value) return 0;
        reactor_.stop();
        return 1;
    }
    int fd() const noexcept override { return fd_; }

  private:
    Reactor& reactor_;
    int fd_;
};

TEST(Reactor, that_is_idle_sleeps_until_its_source_has_an_event) {
    SystemClock clock;
    Reactor reactor(clock);
    EventSource source(reactor);
    reactor.add(source);
    test::Looks looks;
    reactor.add(looks);
    std::thread waker([&] {
        timespec idle{0, 200'000'000};  // the idle time under test, not a synchronisation
        nanosleep(&idle, nullptr);
        uint64_t one = 1;
        EXPECT_EQ(write(source.fd(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
    });
    reactor.run();
    waker.join();
    reactor.remove(source);
    reactor.remove(looks);
    EXPECT_LT(looks.count, test::kLooksWhenIdle)
        << "an idle reactor must sleep, not spin (200 ms of idleness)";
}

}  // namespace
}  // namespace wss::reactor
