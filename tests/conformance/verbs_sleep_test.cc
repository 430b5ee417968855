// SPDX-License-Identifier: Apache-2.0
// Sleeping pollers: in reactors of their own threads they use no CPU while nothing happens, and wake up for
// messages, connection events and deadlines.
#include <future>
#include <thread>

#include "lib/reactor/reactor.h"
#include "tests/conformance/verbs_fixture.h"

namespace wss::fabric {
namespace {

constexpr std::chrono::seconds kBound(60);

// A reactor with one poller, run by a thread.
class Worker {
  public:
    explicit Worker(Poller& poller) : poller_(poller), reactor_(clock_) {
        reactor_.add(poller_);
        thread_ = std::thread([this] { reactor_.run(); });
    }
    ~Worker() {
        reactor_.stop();
        thread_.join();
        reactor_.remove(poller_);
    }
    // Runs `task` on the worker's thread and waits for it.
    void run(std::function<void()> task) {
        std::promise<void> done;
        reactor_.post([&] {
            task();
            done.set_value();
        });
        ASSERT_EQ(done.get_future().wait_for(kBound), std::future_status::ready);
    }

  private:
    SystemClock clock_;
    Poller& poller_;
    reactor::Reactor reactor_;
    std::thread thread_;
};

Nanoseconds cpu_time() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return {time.tv_sec * 1'000'000'000 + time.tv_nsec};
}

// Sends every message back, `left` times.
struct Echo final : ConnectionHandler {
    Verbs& t;
    size_t offset;
    int left;
    std::promise<void> established, finished, closed;

    Echo(Verbs& fixture, size_t where, int rounds) : t(fixture), offset(where), left(rounds) {}
    void receive(Connection& connection) {
        Segment segment = t.segment(offset + 64, 64);
        Receive receive{.segments = {&segment, 1}};
        EXPECT_EQ(connection.post_receives({&receive, 1}), Code::kOk);
    }
    void send(Connection& connection) {
        Segment segment = t.segment(offset, 64);
        WorkRequest request{.op = Op::kSend, .signalled = false, .inlined = true, .segments = {&segment, 1}};
        EXPECT_EQ(connection.post({&request, 1}), Code::kOk);
    }
    void on_established(Connection& connection, std::span<const std::byte> data) noexcept override {
        if (!data.empty()) receive(connection);  // the accepting side has already posted its own
        established.set_value();
    }
    void on_refused(Connection&, const Status& why, std::span<const std::byte>) noexcept override {
        ADD_FAILURE() << why.to_string();
    }
    void on_completions(Connection& connection, std::span<const Completion> done) noexcept override {
        for (const Completion& one : done) {
            if (one.status != CompletionStatus::kOk) continue;
            receive(connection);
            if (left > 0) send(connection);
            if (--left == 0) finished.set_value();
        }
    }
    void on_closed(Connection&, const Status&) noexcept override { closed.set_value(); }
};

// Accepts on a different poller from the listener's, as a target with several reactors does.
struct HandOver final : ListenHandler {
    Verbs& t;
    Echo& echo;
    Poller& poller;
    Worker* worker = nullptr;
    std::unique_ptr<Connection> connection;

    HandOver(Verbs& fixture, Echo& handler, Poller& other) : t(fixture), echo(handler), poller(other) {}
    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        worker->run([&] {
            auto made = request->create(poller, {}, echo);
            ASSERT_TRUE(made) << made.status().to_string();
            connection = std::move(*made);
            echo.receive(*connection);
            EXPECT_TRUE(connection->accept(bytes_of("yes")));
        });
    }
};

void wait(std::promise<void>& promise) {
    ASSERT_EQ(promise.get_future().wait_for(kBound), std::future_status::ready);
}

void sleeping_pollers_wake_for_messages_and_idle_ones_use_no_cpu(Verbs& t) {
    constexpr int kRounds = 500;
    t.memory = std::move(*t.fabric->allocate(Verbs::kMemory, Access::kLocal));
    auto third_poller = t.make_poller();
    Echo client(t, 0, kRounds), server(t, 4096, kRounds);
    HandOver listen_handler(t, server, *third_poller);
    Address where = t.listener->address();
    where.port = 0;
    t.listener.reset();
    auto listener = std::move(*t.server_poller->listen(where, listen_handler));
    std::unique_ptr<Connection> connection;
    {
        Worker listening(*t.server_poller), connecting(*t.client_poller), serving(*third_poller);
        listen_handler.worker = &serving;
        connecting.run(
            [&] { connection = std::move(*t.client_poller->connect(listener->address(), {}, {}, client)); });
        wait(client.established);
        wait(server.established);
        Nanoseconds start = SystemClock().now();
        connecting.run([&] { client.send(*connection); });
        wait(client.finished);
        std::printf("%d round trips of %lld us\n", kRounds,
                    static_cast<long long>((SystemClock().now() - start).count / 1000 / kRounds));

        Nanoseconds cpu_before = cpu_time(), before = SystemClock().now();
        std::this_thread::sleep_for(std::chrono::seconds(3));  // the measured time
        Nanoseconds cpu = cpu_time() - cpu_before, elapsed = SystemClock().now() - before;
        std::printf("idle: %.3f %% of a CPU\n",
                    100.0 * static_cast<double>(cpu.count) / static_cast<double>(elapsed.count));
        // Three spinning threads would use all processors.
        EXPECT_LT(cpu.count * 10, elapsed.count);

        connecting.run([&] { connection->close(); });
        wait(client.closed);
        wait(server.closed);
        connecting.run([&] { connection.reset(); });
        serving.run([&] { listen_handler.connection.reset(); });
        listening.run([&] { listener.reset(); });
    }
}

void a_sleeping_poller_wakes_for_its_deadline(Verbs& t) {
    struct Refused final : ConnectionHandler {
        std::promise<Status> refused;
        void on_established(Connection&, std::span<const std::byte>) noexcept override {}
        void on_refused(Connection&, const Status& why, std::span<const std::byte>) noexcept override {
            refused.set_value(why);
        }
        void on_completions(Connection&, std::span<const Completion>) noexcept override {}
        void on_closed(Connection&, const Status&) noexcept override {}
    } handler;
    t.hold = true;
    t.options.connect_timeout = from_ms(400);
    std::unique_ptr<Connection> connection;
    {
        Worker listening(*t.server_poller), connecting(*t.client_poller);
        connecting.run(
            [&] { connection = std::move(*t.client_poller->connect(t.where, {}, t.options, handler)); });
        std::future<Status> why = handler.refused.get_future();
        ASSERT_EQ(why.wait_for(std::chrono::seconds(4)), std::future_status::ready);
        EXPECT_EQ(why.get().code(), Code::kTimedOut);
        connecting.run([&] { connection.reset(); });
        listening.run([&] { t.held.reset(); });
    }
}

constexpr std::pair<const char*, VerbsBody> kTests[] = {
    VERBS_TEST(sleeping_pollers_wake_for_messages_and_idle_ones_use_no_cpu),
    VERBS_TEST(a_sleeping_poller_wakes_for_its_deadline),
};
[[maybe_unused]] const bool registered = register_verbs_tests("VerbsSleep", __FILE__, kTests);

}  // namespace
}  // namespace wss::fabric
