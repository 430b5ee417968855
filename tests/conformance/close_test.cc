// SPDX-License-Identifier: Apache-2.0
// F5, F6: connections end in every state, and handlers are notified of the end.
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "tests/conformance/suite.h"

namespace wss::fabric::conformance {

TEST_P(OverAFabric, F5_everything_posted_is_flushed_exactly_once_and_on_closed_is_last) {
    ASSERT_NO_FATAL_FAILURE(connect());
    for (uint64_t i = 0; i < 10; ++i) {
        ASSERT_EQ(client_.receive(100 + i, 0, 8), Code::kOk);
        ASSERT_EQ(client_.send(i, 0, 8, i % 2 == 0), Code::kOk);  // the server has posted no receive
    }
    for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(server_.read(i, 0, 8, client_.remote(0)), Code::kOk);
    ASSERT_TRUE(wait([&] { return server_.heard.done(4); }));
    client_.connection->close();
    EXPECT_FALSE(client_.heard.closed) << "handlers are called from poll() only";
    EXPECT_EQ(client_.send(50, 0, 8), Code::kClosed);
    ASSERT_TRUE(wait([&] { return both_closed(); }));
    EXPECT_EQ(client_.heard.completions.size(), 20u);
    for (uint64_t i = 0; i < 10; ++i) {
        EXPECT_EQ(client_.heard.count(i), 1u);
        EXPECT_EQ(client_.heard.status(i), CompletionStatus::kFlushed);
        EXPECT_EQ(client_.heard.count(100 + i), 1u);
        EXPECT_EQ(client_.heard.status(100 + i), CompletionStatus::kFlushed);
    }
    EXPECT_EQ(server_.heard.completions.size(), 5u);
    EXPECT_EQ(client_.send(51, 0, 8), Code::kClosed);
    EXPECT_EQ(client_.receive(52, 0, 8), Code::kClosed);
}

TEST_P(OverAFabric, F5_the_peers_close_flushes_local_requests) {
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_EQ(server_.receive(1, 0, 8), Code::kOk);
    ASSERT_EQ(server_.send(2, 0, 8), Code::kOk);
    for (int i = 0; i < 50; ++i) turn();
    client_.connection->close();
    ASSERT_TRUE(wait([&] { return both_closed(); }));
    EXPECT_EQ(server_.heard.status(1), CompletionStatus::kFlushed);
    EXPECT_NE(server_.heard.status(2), CompletionStatus::kOk);
    EXPECT_EQ(server_.heard.completions.size(), 2u);
    EXPECT_FALSE(server_.heard.why.is_ok());
}

TEST_P(OverAFabric, F5_a_client_that_closes_while_connecting_gets_on_closed_and_its_peer_is_notified) {
    answer_ = Answer::kKeep;
    ASSERT_NO_FATAL_FAILURE(listen());
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return kept_ != nullptr; }));
    client_.connection->close();
    ASSERT_TRUE(wait([&] { return client_.heard.over(); }));
    EXPECT_FALSE(client_.heard.established);
    // The server accepts without knowledge of the loss, and must be notified that the peer is gone.
    auto made = kept_->create(*server_.poller, options_, server_.heard);
    if (!made) return;
    server_.connection = std::move(*made);
    (void)server_.connection->accept({}).is_ok();
    ASSERT_TRUE(wait([&] { return server_.heard.over(); }));
}

TEST_P(OverAFabric, F5_a_client_that_closes_right_after_connect_gets_on_closed) {
    ASSERT_NO_FATAL_FAILURE(listen());
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    client_.connection->close();
    ASSERT_TRUE(wait([&] { return client_.heard.over(); }));
    if (server_.connection != nullptr) {
        ASSERT_TRUE(wait([&] { return server_.heard.over(); }));
    }
}

TEST_P(OverAFabric, F5_both_ends_may_close_at_the_same_time) {
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.connection->close();
    server_.connection->close();
    client_.connection->close();
    ASSERT_TRUE(wait([&] { return both_closed(); }));
}

TEST_P(OverAFabric, F5_a_handler_may_close_and_may_destroy_its_connection_in_on_closed) {
    ASSERT_NO_FATAL_FAILURE(connect());
    struct Owner final : Recorder {
        std::unique_ptr<Connection>* owned = nullptr;
        void on_closed(Connection& connection, const Status& status) noexcept override {
            Recorder::on_closed(connection, status);
            if (owned != nullptr) owned->reset();
        }
    } owner;
    answer_ = Answer::kKeep;
    auto made = client_.poller->connect(address_, {}, options_, owner);
    ASSERT_TRUE(made);
    std::unique_ptr<Connection> mine = std::move(*made);
    owner.owned = &mine;
    ASSERT_TRUE(wait([&] { return kept_ != nullptr; }));
    Recorder other;
    auto theirs = kept_->create(*server_.poller, options_, other);
    ASSERT_TRUE(theirs);
    ASSERT_TRUE((*theirs)->accept({}));
    ASSERT_TRUE(wait([&] { return owner.established && other.established; }));
    owner.react = [](Connection& connection, const Completion&) { connection.close(); };
    Segment one = client_.segment(0, 8);
    WorkRequest request{.op = Op::kWrite, .cookie = 1, .segments = {&one, 1}, .remote = server_.remote(0)};
    ASSERT_EQ(mine->post({&request, 1}), Code::kOk);
    ASSERT_TRUE(wait([&] { return mine == nullptr && other.closed; }));
    EXPECT_EQ(owner.status(1), CompletionStatus::kOk);
}

TEST_P(OverAFabric, F5_a_full_queue_of_large_writes_ends_cleanly_if_either_side_closes_during_a_transfer) {
    options_.send_depth = 64;
    for (bool client_closes : {true, false}) {
        ASSERT_NO_FATAL_FAILURE(connect());
        for (uint64_t i = 0; i < 64; ++i)
            ASSERT_EQ(client_.write(i, 0, kArenaBytes, server_.remote(0)), Code::kOk);
        ASSERT_TRUE(wait([&] { return client_.heard.done(3); }));
        (client_closes ? client_ : server_).connection->close();
        ASSERT_TRUE(wait([&] { return both_closed(); }));
        ASSERT_EQ(client_.heard.completions.size(), 64u);
        for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(client_.heard.completions[i].cookie, i);
        hang_up();
        client_.heard = Recorder();
        server_.heard = Recorder();
    }
}

// --- F6: peer processes that are killed at each step

namespace {

enum class Step { kRequested, kAccepted, kReceiving };

// The arena of the child, as the child reports it to its parent.
struct Card {
    uint64_t address;
    uint32_t rkey;
};

// The server in a process of its own: it listens, proceeds to `step`, then polls until it is killed.
class ChildServer final : public ListenHandler {
  public:
    ChildServer(const FabricUnderTest& kind, Step step, int out) : step_(step), world_(kind.make()) {
        poller_ = std::move(*world_->server().create_poller());
        arena_ = std::move(*world_->server().allocate(kArenaBytes, Access::kRemoteReadWrite));
        listener_ = std::move(*poller_->listen(world_->listen_address(), *this));
        std::string line = listener_->address().to_string() + "\n";
        Card card{.address = arena_->remote_address(), .rkey = arena_->rkey(0)};
        line.append(reinterpret_cast<const char*>(&card), sizeof card);
        if (::write(out, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(2);
    }
    void run() {
        alarm(60);  // in case the parent fails
        for (;;) {
            poller_->poll();
            usleep(100);
        }
    }
    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        request_ = std::move(request);
        if (step_ == Step::kRequested) return;
        connection_ = std::move(*request_->create(*poller_, {}, heard_));
        Segment one{.address = arena_->bytes().data(), .length = 64, .lkey = arena_->lkey()};
        Receive receive{.cookie = 1, .segments = {&one, 1}};
        if (step_ == Step::kReceiving && connection_->post_receives({&receive, 1}) != Code::kOk) _exit(3);
        if (!connection_->accept({})) _exit(4);
    }

  private:
    Step step_;
    std::unique_ptr<World> world_;
    std::unique_ptr<Poller> poller_;
    std::unique_ptr<Region> arena_;
    std::unique_ptr<Listener> listener_;
    std::unique_ptr<ConnectRequest> request_;
    Recorder heard_;
    std::unique_ptr<Connection> connection_;
};

struct Child {
    Child(const FabricUnderTest& kind, Step step) {
        int ends[2];
        if (pipe(ends) != 0) return;
        pid = fork();
        if (pid == 0) {
            ::close(ends[0]);
            ChildServer server(kind, step, ends[1]);
            server.run();
        }
        ::close(ends[1]);
        std::string line;
        char c;
        while (::read(ends[0], &c, 1) == 1 && c != '\n') line += c;
        if (Result<Address> parsed = Address::parse(line, 1)) address = *parsed;
        if (::read(ends[0], &card, sizeof card) != sizeof card) card = {};
        ::close(ends[0]);
    }
    ~Child() { end(); }
    void end() {
        if (pid <= 0) return;
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        pid = -1;
    }
    pid_t pid = -1;
    Address address;
    Card card{};
};

}  // namespace

TEST_P(OverAFabric, F6_connecting_to_a_peer_killed_before_it_answers_is_refused) {
    if (!world_->is_real()) GTEST_SKIP() << "no processes";
    Child child(GetParam(), Step::kRequested);
    address_ = child.address;
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    for (int i = 0; i < 200; ++i) {
        turn();
        usleep(100);  // gives the other process time; nothing below depends on its progress
    }
    child.end();
    ASSERT_TRUE(wait([&] { return client_.heard.over(); }));
    EXPECT_TRUE(client_.heard.refused);
}

TEST_P(OverAFabric, F6_a_peer_killed_with_requests_pending_closes_the_connection) {
    if (!world_->is_real()) GTEST_SKIP() << "no processes";
    Child child(GetParam(), Step::kAccepted);
    address_ = child.address;
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return client_.heard.established; })) << client_.heard.why.to_string();
    ASSERT_EQ(client_.send(1, 0, 8), Code::kOk);  // never received
    ASSERT_EQ(client_.receive(2, 0, 8), Code::kOk);
    ASSERT_EQ(client_.send(3, 0, 8), Code::kOk);
    for (int i = 0; i < 100; ++i) turn();
    child.end();
    ASSERT_TRUE(wait([&] { return client_.heard.closed; }));
    EXPECT_TRUE(client_.heard.status(1) == CompletionStatus::kFlushed ||
                client_.heard.status(1) == CompletionStatus::kPeerLost);
    EXPECT_EQ(client_.heard.status(2), CompletionStatus::kFlushed);
    EXPECT_EQ(client_.heard.status(3), CompletionStatus::kFlushed);
    EXPECT_EQ(client_.heard.completions.size(), 3u);
}

TEST_P(OverAFabric, F6_a_peer_killed_during_transfers_closes_the_connection) {
    if (!world_->is_real()) GTEST_SKIP() << "no processes";
    Child child(GetParam(), Step::kReceiving);
    address_ = child.address;
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return client_.heard.established; })) << client_.heard.why.to_string();
    RemoteAddress where{.address = child.card.address, .rkey = child.card.rkey};
    uint64_t cookie = 0;
    uint64_t posted = 0;
    ASSERT_TRUE(wait([&] {
        uint32_t length = 128u << 10;
        Code code = cookie % 2 == 0 ? client_.read(cookie, 0, length, where)
                                    : client_.write(cookie, length, length, where);
        if (code == Code::kOk) posted = ++cookie;
        if (client_.heard.completions.size() >= 50) child.end();
        return client_.heard.closed;
    }));
    ASSERT_EQ(client_.heard.completions.size(), posted) << "each exactly once";
    for (uint64_t i = 0; i < posted; ++i) EXPECT_EQ(client_.heard.completions[i].cookie, i);
}

TEST_P(OverAFabric, F6_an_idle_connection_closes_when_its_peer_is_killed) {
    if (!world_->is_real()) GTEST_SKIP() << "no processes";
    if (caps().dead_peer_ms == 0) GTEST_SKIP() << "detected only with an operation pending";
    Child child(GetParam(), Step::kReceiving);
    address_ = child.address;
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return client_.heard.established; })) << client_.heard.why.to_string();
    child.end();
    SystemClock clock;
    Nanoseconds begin = clock.now();
    ASSERT_TRUE(wait([&] { return client_.heard.closed; }));
    EXPECT_LT(clock.now() - begin, from_ms(caps().dead_peer_ms) + from_s(5));
}

}  // namespace wss::fabric::conformance
