// SPDX-License-Identifier: Apache-2.0
// Fabrics with a reactor: an idle reactor uses no CPU, and a sleeping one misses nothing. Random operations
// of all kinds are checked against a model.
#include <thread>

#include "tests/conformance/suite.h"
#include "tests/support/looks.h"

namespace wss::fabric::conformance {

TEST_P(OverAFabric, a_reactor_whose_connections_are_idle_sleeps) {
    if (!world_->is_real()) GTEST_SKIP() << "no wall clock";
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_EQ(server_.receive(1, 0, 8), Code::kOk);
    for (int i = 0; i < 100; ++i) turn();
    SystemClock clock;
    reactor::Reactor reactor(clock);
    reactor.add(*client_.poller);
    reactor.add(*server_.poller);
    test::Looks looks;
    reactor.add(looks);
    reactor::Timer stop([](void* context) noexcept { static_cast<reactor::Reactor*>(context)->stop(); },
                        &reactor);
    reactor.set(stop, clock.now() + from_ms(500));
    reactor.run();
    reactor.remove(*client_.poller);
    reactor.remove(*server_.poller);
    reactor.remove(looks);
    EXPECT_LT(looks.count, test::kLooksWhenIdle) << "in 500 ms without events";
}

namespace {

// Replies to every message, from a reactor that sleeps whenever it can.
class Echo {
  public:
    Echo(End& end, bool begins, int rounds) : end_(end), begins_(begins), rounds_(rounds) {}
    void arm() {
        for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(end_.receive(i, 64 * i, 8), Code::kOk);
        end_.heard.react = [this](Connection&, const Completion& completion) { hear(completion); };
    }
    void run() {
        reactor::Reactor reactor(clock_, {.spin = {0}});
        reactor_ = &reactor;
        reactor::Timer late([](void* context) noexcept { static_cast<Echo*>(context)->give_up(); }, this);
        reactor.set(late, clock_.now() + kPatience);
        reactor.add(*end_.poller);
        if (begins_) {
            EXPECT_EQ(end_.send(99, 1024, 8), Code::kOk);
        }
        reactor.run();
        reactor.cancel(late);
        reactor.remove(*end_.poller);
    }
    int heard_rounds() const { return heard_; }

  private:
    void hear(const Completion& completion) {
        if (completion.kind != CompletionKind::kReceive || completion.status != CompletionStatus::kOk) return;
        EXPECT_EQ(end_.receive(completion.cookie, 64 * completion.cookie, 8), Code::kOk);
        ++heard_;
        // The end that began does not answer the last reply.
        if (!begins_ || heard_ < rounds_) {
            EXPECT_EQ(end_.send(99, 1024, 8, false), Code::kOk);
        }
        if (heard_ == rounds_) linger();
    }
    // The last reply is sent in the next turn.
    void linger() {
        reactor_->post([this] { reactor_->post([this] { reactor_->stop(); }); });
    }
    void give_up() {
        ADD_FAILURE() << "no wake-up for a message after " << heard_ << " rounds";
        reactor_->stop();
    }

    End& end_;
    const bool begins_;
    const int rounds_;
    int heard_ = 0;
    SystemClock clock_;
    reactor::Reactor* reactor_ = nullptr;
};

}  // namespace

TEST_P(OverAFabric, two_sleeping_reactors_never_miss_a_message) {
    if (!world_->is_real()) GTEST_SKIP() << "no threads";
    const int rounds =
        world_->cycles() / 2;  // each puts both to sleep: milliseconds where the device is emulated
    ASSERT_NO_FATAL_FAILURE(connect());
    Echo client(client_, true, rounds);
    Echo server(server_, false, rounds);
    ASSERT_NO_FATAL_FAILURE(client.arm());
    ASSERT_NO_FATAL_FAILURE(server.arm());
    std::thread other([&] { server.run(); });
    client.run();
    other.join();
    EXPECT_EQ(client.heard_rounds(), rounds);
    EXPECT_EQ(server.heard_rounds(), rounds);
    client_.heard.react = nullptr;
    server_.heard.react = nullptr;
}

namespace {

// Random WRITEs, READs and SENDs of one side, against a copy of the peer's memory. The lower half of the
// peer's arena is written and read one-sidedly, the upper half receives messages.
class Mixture {
  public:
    Mixture(End& here, End& there, uint64_t seed, bool immediate)
        : here_(here), there_(there), random_(seed), immediate_(immediate), model_(kHalf) {
        std::memcpy(model_.data(), there_.at(0), kHalf);
        for (size_t i = 0; i < kHalf; ++i) here_.at(kHalf)[i] = static_cast<std::byte>(random_.next());
    }

    uint64_t moved() const { return moved_; }
    bool idle() const { return pending_.empty(); }

    void step() {
        uint32_t length =
            1 + static_cast<uint32_t>(random_.chance(8) ? random_.below(kLongest) : random_.below(4096));
        uint64_t kind = random_.below(immediate_ ? 4 : 3);
        size_t source = kHalf + random_.below(kHalf - length);
        size_t target = random_.below(kHalf - length);
        Code code = Code::kExhausted;
        Pending pending{.kind = kind, .length = length};
        if (kind == 0) {
            code = here_.write(cookie_, source, length, there_.remote(target));
        } else if (kind == 1) {
            // Only one READ is in flight at a time, because all READs use the same local buffer.
            if (reading_) return;
            pending.expected.assign(model_.begin() + static_cast<ptrdiff_t>(target),
                                    model_.begin() + static_cast<ptrdiff_t>(target + length));
            code = here_.read(cookie_, 0, length, there_.remote(target));
        } else {
            code = message(kind, source, target, length, pending);
        }
        if (code != Code::kOk) {
            ASSERT_EQ(code, Code::kExhausted);
            return;
        }
        if (kind == 0 || kind == 3) std::memcpy(&model_[target], here_.at(source), length);
        if (kind == 1) reading_ = true;
        pending_.push_back(std::move(pending));
        ++cookie_;
        moved_ += length;
    }

    // Completions of this side's requests arrive in order.
    void completed(const Completion& completion) {
        ASSERT_EQ(completion.status, CompletionStatus::kOk) << to_string(completion.status);
        ASSERT_EQ(completion.cookie, done_);
        ASSERT_FALSE(pending_.empty());
        const Pending& pending = pending_.front();
        if (pending.kind == 1) {
            reading_ = false;
            // Later WRITEs may have overtaken the READ, so it is compared only if there are none.
            if (cookie_ == done_ + 1) {
                ASSERT_EQ(std::memcmp(here_.at(0), pending.expected.data(), pending.expected.size()), 0);
            }
        }
        pending_.erase(pending_.begin());
        ++done_;
    }
    void received(const Completion& completion) {
        ASSERT_EQ(completion.status, CompletionStatus::kOk) << to_string(completion.status);
        ASSERT_FALSE(messages_.empty());
        Message message = std::move(messages_.front());
        messages_.erase(messages_.begin());
        ASSERT_EQ(completion.length, message.length);
        ASSERT_EQ(completion.kind == CompletionKind::kReceiveImmediate, message.immediate);
        if (!message.immediate) {
            ASSERT_EQ(std::memcmp(there_.at(slot(completion.cookie)), message.bytes.data(), message.length),
                      0);
        }
        post_receive(completion.cookie);
    }
    void post_receive(uint64_t cookie) {
        ASSERT_EQ(there_.receive(cookie, slot(cookie), kMessage), Code::kOk);
    }
    void expect_model() const { EXPECT_EQ(std::memcmp(there_.at(0), model_.data(), kHalf), 0); }

    static constexpr uint64_t kReceives = 32;

  private:
    static constexpr size_t kHalf = kArenaBytes / 2;
    static constexpr uint32_t kLongest = 200u << 10;
    static constexpr uint32_t kMessage = 8192;
    struct Pending {
        uint64_t kind;
        uint32_t length;
        std::vector<std::byte> expected{};
    };
    struct Message {
        uint32_t length;
        bool immediate;
        std::vector<std::byte> bytes;
    };
    static size_t slot(uint64_t cookie) { return kHalf + cookie * kMessage; }

    Code message(uint64_t kind, size_t source, size_t target, uint32_t& length, Pending& pending) {
        Segment one = here_.segment(source, length);
        if (kind == 2) one.length = pending.length = length = 1 + length % kMessage;
        WorkRequest request{.op = kind == 2 ? Op::kSend : Op::kWriteImmediate,
                            .cookie = cookie_,
                            .remote = there_.remote(target)};
        Code code = here_.post(request, {&one, 1});
        if (code == Code::kOk)
            messages_.push_back({length, kind == 3, {here_.at(source), here_.at(source) + length}});
        return code;
    }

    End& here_;
    End& there_;
    Random random_;
    const bool immediate_;
    std::vector<std::byte> model_;
    std::vector<Pending> pending_;
    std::vector<Message> messages_;
    uint64_t cookie_ = 0;
    uint64_t done_ = 0;
    uint64_t moved_ = 0;
    bool reading_ = false;
};

}  // namespace

TEST_P(OverAFabric, a_hundred_megabytes_of_random_operations_match_a_model) {
    uint64_t seed = Random::entropy();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const uint64_t total = world_->is_real() ? 100u << 20 : 10u << 20;
    ASSERT_NO_FATAL_FAILURE(connect());
    Mixture mixture(client_, server_, seed, caps().write_immediate);
    for (uint64_t i = 0; i < Mixture::kReceives; ++i) mixture.post_receive(i);
    client_.heard.react = [&](Connection&, const Completion& completion) { mixture.completed(completion); };
    server_.heard.react = [&](Connection&, const Completion& completion) { mixture.received(completion); };
    Random random(seed + 1);
    while (mixture.moved() < total && !HasFailure()) {
        for (uint64_t i = random.below(20); i > 0 && !HasFailure(); --i) mixture.step();
        turn();
        // Sometimes all operations are completed first, so that a READ can be compared.
        if (random.chance(50)) {
            ASSERT_TRUE(wait([&] { return mixture.idle(); }));
        }
        client_.heard.completions.clear();
        server_.heard.completions.clear();
    }
    EXPECT_TRUE(wait([&] { return mixture.idle(); }));
    mixture.expect_model();
    client_.heard.react = server_.heard.react = nullptr;
}

}  // namespace wss::fabric::conformance
