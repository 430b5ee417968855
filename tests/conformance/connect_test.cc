// SPDX-License-Identifier: Apache-2.0
// Connection setup and its failures.
#include <dirent.h>

#include <atomic>
#include <thread>

#include "tests/conformance/suite.h"

namespace wss::fabric::conformance {

TEST_P(OverAFabric, connect_and_accept_carry_private_data) {
    answer_data_ = "welcome";
    ASSERT_NO_FATAL_FAILURE(listen());
    ASSERT_NO_FATAL_FAILURE(begin_connect("let me in"));
    ASSERT_TRUE(wait([&] { return client_.heard.established && server_.heard.established; }));
    EXPECT_EQ(request_data_, "let me in");
    EXPECT_EQ(client_.heard.established_data, "welcome");
    EXPECT_EQ(server_.heard.established_data, "");
    EXPECT_FALSE(client_.connection->peer().empty());
    EXPECT_FALSE(server_.connection->peer().empty());
}

static std::vector<std::byte> binding_of(const Connection& connection) {
    const auto bytes = connection.channel_binding();
    return {bytes.begin(), bytes.end()};
}

TEST_P(OverAFabric, both_ends_have_the_same_channel_binding_and_another_connection_has_another_one) {
    ASSERT_NO_FATAL_FAILURE(connect());
    const auto binding = binding_of(*client_.connection);
    EXPECT_EQ(binding, binding_of(*server_.connection));
    answer_ = Answer::kKeep;
    Recorder near, far;
    auto second = client_.poller->connect(address_, {}, options_, near);
    ASSERT_TRUE(second) << second.status().to_string();
    ASSERT_TRUE(wait([&] { return kept_ != nullptr; }));
    auto accepting = kept_->create(*server_.poller, options_, far);
    ASSERT_TRUE(accepting) << accepting.status().to_string();
    ASSERT_TRUE((*accepting)->accept({}));
    ASSERT_TRUE(wait([&] { return near.established && far.established; }));
    EXPECT_EQ(binding_of(**second), binding_of(**accepting));
    EXPECT_TRUE(binding.empty() || binding != binding_of(**second));
    (*second)->close();
    (*accepting)->close();
    EXPECT_TRUE(wait([&] { return near.over() && far.over(); }));
}

TEST_P(OverAFabric, private_data_of_the_maximum_length_arrives_complete) {
    std::string most(caps().connect_data_max, 'c');
    answer_data_ = std::string(caps().accept_data_max, 'a');
    ASSERT_NO_FATAL_FAILURE(listen());
    ASSERT_NO_FATAL_FAILURE(begin_connect(most));
    ASSERT_TRUE(wait([&] { return client_.heard.established; })) << client_.heard.why.to_string();
    EXPECT_EQ(request_data_, most);
    EXPECT_EQ(client_.heard.established_data, answer_data_);
    EXPECT_FALSE(client_.poller->connect(address_, bytes_of(most + "!"), options_, client_.heard));
}

TEST_P(OverAFabric, a_rejected_client_is_refused_with_the_data_of_the_reject) {
    answer_ = Answer::kReject;
    answer_data_ = "no such volume";
    ASSERT_NO_FATAL_FAILURE(listen());
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return client_.heard.over(); }));
    EXPECT_TRUE(client_.heard.refused);
    EXPECT_EQ(client_.heard.refused_data, "no such volume");
    EXPECT_EQ(client_.heard.why.code(), Code::kRefused) << client_.heard.why.to_string();
}

TEST_P(OverAFabric, a_dropped_request_is_rejected_without_data) {
    answer_ = Answer::kDrop;
    ASSERT_NO_FATAL_FAILURE(listen());
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return client_.heard.over(); }));
    EXPECT_TRUE(client_.heard.refused);
    EXPECT_EQ(client_.heard.refused_data, "");
}

TEST_P(OverAFabric, an_accepting_connection_that_closes_before_accept_rejects_the_client) {
    answer_ = Answer::kKeep;
    ASSERT_NO_FATAL_FAILURE(listen());
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return kept_ != nullptr; }));
    auto made = kept_->create(*server_.poller, options_, server_.heard);
    ASSERT_TRUE(made) << made.status().to_string();
    server_.connection = std::move(*made);
    ASSERT_EQ(server_.receive(1, 0, 8), Code::kOk);
    server_.connection->close();
    ASSERT_TRUE(wait([&] { return client_.heard.over() && server_.heard.over(); }));
    EXPECT_TRUE(client_.heard.refused);
    EXPECT_TRUE(server_.heard.closed);
    EXPECT_EQ(server_.heard.status(1), CompletionStatus::kFlushed);
}

TEST_P(OverAFabric, an_answer_may_come_later_from_outside_the_handler) {
    answer_ = Answer::kKeep;
    ASSERT_NO_FATAL_FAILURE(listen());
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return kept_ != nullptr; }));
    // In a simulated world only the timeout is left as an event, and a turn would advance to it.
    for (int i = 0; world_->is_real() && i < 100; ++i) turn();
    EXPECT_FALSE(client_.heard.established || client_.heard.over());
    answer_ = Answer::kAccept;
    on_connect_request(std::move(kept_));
    ASSERT_TRUE(wait([&] { return client_.heard.established && server_.heard.established; }));
}

TEST_P(OverAFabric, receives_posted_before_accept_consume_the_first_messages) {
    answer_ = Answer::kKeep;
    ASSERT_NO_FATAL_FAILURE(listen());
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return kept_ != nullptr; }));
    auto made = kept_->create(*server_.poller, options_, server_.heard);
    ASSERT_TRUE(made);
    server_.connection = std::move(*made);
    ASSERT_EQ(server_.receive(1, 0, 8), Code::kOk);
    ASSERT_TRUE(server_.connection->accept({}));
    ASSERT_TRUE(wait([&] { return client_.heard.established; }));
    ASSERT_EQ(client_.send(2, 0, 8), Code::kOk);
    ASSERT_TRUE(wait([&] { return server_.heard.done(1) && client_.heard.done(2); }));
}

TEST_P(OverAFabric, connecting_where_nobody_listens_is_refused) {
    address_ = world_->nobody();
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return client_.heard.over(); }));
    EXPECT_TRUE(client_.heard.refused);
    EXPECT_TRUE(client_.heard.why.code() == Code::kRefused ||
                client_.heard.why.code() == Code::kUnavailable || client_.heard.why.code() == Code::kNotFound)
        << client_.heard.why.to_string();
    EXPECT_FALSE(client_.heard.why.text().empty());
}

TEST_P(OverAFabric, connecting_to_a_silent_peer_times_out) {
    std::optional<Address> silent = world_->silent();
    if (!silent) GTEST_SKIP() << "no silent peer in this world";
    address_ = *silent;
    options_.connect_timeout = from_ms(150);
    SystemClock clock;
    Nanoseconds begin = clock.now();
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return client_.heard.over(); }));
    EXPECT_TRUE(client_.heard.refused);
    EXPECT_EQ(client_.heard.why.code(), Code::kTimedOut) << client_.heard.why.to_string();
    if (!world_->is_real()) return;
    EXPECT_GE(clock.now() - begin, from_ms(150));
    EXPECT_LT(clock.now() - begin, from_s(10));
}

TEST_P(OverAFabric, listening_twice_on_one_address_fails_with_a_reason) {
    ASSERT_NO_FATAL_FAILURE(listen());
    Result<std::unique_ptr<Listener>> second = client_.poller->listen(address_, *this);
    ASSERT_FALSE(second);
    EXPECT_NE(second.status().to_string().find(address_.host), std::string::npos)
        << second.status().to_string();
}

TEST_P(OverAFabric, connections_outlive_their_listener_and_its_address_is_free_again) {
    ASSERT_NO_FATAL_FAILURE(connect());
    listener_.reset();
    ASSERT_EQ(client_.write(1, 0, 8, server_.remote(0)), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.done(1); }));
    hang_up();
    Result<std::unique_ptr<Listener>> again = server_.poller->listen(address_, *this);
    ASSERT_TRUE(again) << again.status().to_string();
}

namespace {

// The two ends of one of many echoing connections.
struct Pair {
    Recorder client_heard, server_heard;
    std::unique_ptr<Connection> client, server;
};

struct Host final : ListenHandler {
    std::function<void(std::unique_ptr<ConnectRequest>)> on_request;
    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        on_request(std::move(request));
    }
};

}  // namespace

TEST_P(OverAFabric, many_connections_share_a_poller_without_mixing_their_messages) {
    constexpr uint32_t kConnections = 100;
    options_ = {.send_depth = 8, .receive_depth = 8, .read_depth = 4};
    std::vector<std::unique_ptr<Pair>> pairs;
    Host host;
    size_t accepted = 0;
    host.on_request = [&](std::unique_ptr<ConnectRequest> request) {
        uint32_t index = 0;
        std::memcpy(&index, request->data().data(), sizeof index);
        ASSERT_LT(index, pairs.size());
        auto made = request->create(*server_.poller, options_, pairs[index]->server_heard);
        ASSERT_TRUE(made) << made.status().to_string();
        pairs[index]->server = std::move(*made);
        Segment one = server_.segment(index * 4, 4);
        Receive receive{.cookie = index, .segments = {&one, 1}};
        ASSERT_EQ(pairs[index]->server->post_receives({&receive, 1}), Code::kOk);
        ASSERT_TRUE(pairs[index]->server->accept({}));
        ++accepted;
    };
    auto listener = server_.poller->listen(world_->listen_address(), host);
    ASSERT_TRUE(listener) << listener.status().to_string();
    for (uint32_t i = 0; i < kConnections; ++i) {
        pairs.push_back(std::make_unique<Pair>());
        std::memcpy(client_.at(i * 4), &i, 4);
        auto made = client_.poller->connect((*listener)->address(), {client_.at(i * 4), 4}, options_,
                                            pairs[i]->client_heard);
        ASSERT_TRUE(made) << made.status().to_string();
        pairs[i]->client = std::move(*made);
        ASSERT_TRUE(wait([&] { return pairs[i]->client_heard.established; }));
    }
    for (uint32_t i = 0; i < kConnections; ++i) {
        Segment one = client_.segment(i * 4, 4);
        WorkRequest request{.op = Op::kSend, .cookie = i, .segments = {&one, 1}};
        ASSERT_EQ(pairs[i]->client->post({&request, 1}), Code::kOk);
    }
    for (uint32_t i = 0; i < kConnections; ++i) {
        ASSERT_TRUE(wait([&] { return pairs[i]->client_heard.done(i) && pairs[i]->server_heard.done(i); }));
        EXPECT_EQ(pairs[i]->server_heard.completions.size(), 1u);
    }
    EXPECT_EQ(std::memcmp(server_.at(0), client_.at(0), kConnections * 4), 0);
    for (auto& pair : pairs) pair->client->close();
    for (auto& pair : pairs)
        ASSERT_TRUE(wait([&] { return pair->client_heard.closed && pair->server_heard.closed; }));
}

// One thread receives the request and another one serves it, as in a target that distributes its sessions.
TEST_P(OverAFabric, a_connection_may_be_created_on_the_poller_of_another_thread) {
    if (!world_->is_real()) GTEST_SKIP() << "one thread only";
    answer_ = Answer::kKeep;
    ASSERT_NO_FATAL_FAILURE(listen());
    ASSERT_NO_FATAL_FAILURE(begin_connect());
    ASSERT_TRUE(wait([&] { return kept_ != nullptr; }));
    std::atomic<bool> served{false};
    std::thread other([&] {
        Result<std::unique_ptr<Poller>> poller = server_.fabric->create_poller();
        ASSERT_TRUE(poller);
        Recorder heard;
        auto connection = kept_->create(**poller, options_, heard);
        ASSERT_TRUE(connection) << connection.status().to_string();
        Segment one = server_.segment(0, 8);
        Receive receive{.cookie = 1, .segments = {&one, 1}};
        ASSERT_EQ((*connection)->post_receives({&receive, 1}), Code::kOk);
        ASSERT_TRUE((*connection)->accept({}));
        SystemClock clock;
        Nanoseconds deadline = clock.now() + kPatience;
        while (!heard.closed && clock.now() < deadline) {
            (*poller)->poll();
            if (heard.done(1)) served.store(true);
        }
        EXPECT_TRUE(heard.closed);
    });
    bool sent = false;
    EXPECT_TRUE(wait([&] {
        if (client_.heard.established && !sent) sent = client_.send(2, 0, 8) == Code::kOk;
        return served.load();
    }));
    client_.connection->close();
    EXPECT_TRUE(wait([&] { return client_.heard.closed; }));
    other.join();
    EXPECT_TRUE(served.load());
}

static size_t open_descriptors() {
    size_t count = 0;
    DIR* directory = opendir("/proc/self/fd");
    while (readdir(directory) != nullptr) ++count;
    closedir(directory);
    return count;
}

TEST_P(OverAFabric, connecting_and_disconnecting_ten_thousand_times_leaks_no_descriptor) {
    options_ = {.send_depth = 4, .receive_depth = 4, .read_depth = 2};
    auto once = [&](int i) {
        ASSERT_NO_FATAL_FAILURE(connect());
        // Either end closes, sometimes with a request in flight.
        End& closer = i % 2 == 0 ? client_ : server_;
        if (i % 3 == 0) {
            ASSERT_EQ(client_.write(1, 0, 8, server_.remote(0)), Code::kOk);
        }
        closer.connection->close();
        ASSERT_TRUE(wait([&] { return both_closed(); }));
        hang_up();
        client_.heard = Recorder();
        server_.heard = Recorder();
    };
    once(0);
    size_t before = open_descriptors();
    for (int i = 0; i < world_->cycles(); ++i) {
        once(i);
        if (HasFatalFailure()) FAIL() << "in cycle " << i;
    }
    EXPECT_TRUE(wait([&] { return open_descriptors() <= before; })) << open_descriptors() << " > " << before;
}

}  // namespace wss::fabric::conformance
