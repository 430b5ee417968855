// SPDX-License-Identifier: Apache-2.0
// Ends of verbs connections: refused accesses, both ways to close, peers that vanish, connects that fail.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/conformance/verbs_fixture.h"

namespace wss::fabric {
namespace {

size_t open_descriptors() {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// Expects that both ends have closed, after every receive of the server was flushed.
void expect_both_closed(Verbs& t, size_t receives) {
    ASSERT_TRUE(t.until([&] { return t.client.closed && t.server.closed; }));
    EXPECT_EQ(t.server.completions.size(), receives);
    EXPECT_EQ(t.post(t.client, {.op = Op::kSend}, t.segment(0, 8)), Code::kClosed);
}

void refused_access(Verbs& t, Op op, RemoteAddress remote) {
    std::byte before = *t.at(0);
    ASSERT_EQ(
        t.post(t.client, {.op = op, .signalled = false, .cookie = 5, .remote = remote}, t.segment(64, 64)),
        Code::kOk);
    ASSERT_EQ(t.post(t.client, {.op = Op::kWrite, .cookie = 6, .remote = t.remote(0)}, t.segment(64, 64)),
              Code::kOk);
    expect_both_closed(t, 3);
    ASSERT_EQ(t.client.completions.size(), 2u) << "a failure is reported even if unsignalled";
    EXPECT_EQ(t.client.completions[0].cookie, 5u);
    EXPECT_EQ(t.client.completions[0].status, CompletionStatus::kRemoteAccess);
    EXPECT_EQ(t.client.completions[1].cookie, 6u);
    EXPECT_EQ(t.client.completions[1].status, CompletionStatus::kFlushed);
    EXPECT_EQ(t.client.why.code(), Code::kPermission) << t.client.why.to_string();
    EXPECT_EQ(*t.at(0), before);
}

void a_write_with_a_wrong_key_closes_both_sides(Verbs& t) {
    t.receives = 3;
    t.connect();
    RemoteAddress wrong = t.remote(0);
    wrong.rkey += 0x100;
    refused_access(t, Op::kWrite, wrong);
}

void a_read_out_of_bounds_closes_both_sides(Verbs& t) {
    t.receives = 3;
    t.connect();
    refused_access(t, Op::kRead, t.remote(Verbs::kMemory - 63));
}

void a_revoked_region_is_not_written(Verbs& t) {
    t.receives = 3;
    t.connect();
    std::vector<std::byte> mine(4096, std::byte{1});
    auto region = t.fabric->register_memory(mine, Access::kRemoteReadWrite);
    ASSERT_TRUE(region);
    RemoteAddress remote{(*region)->remote_address(), (*region)->rkey(0)};
    ASSERT_EQ(t.post(t.client, {.op = Op::kWrite, .remote = remote}, t.segment(64, 8)), Code::kOk);
    ASSERT_TRUE(t.until([&] { return t.client.completions.size() == 1; }));
    EXPECT_EQ(mine[0], std::byte{0});
    t.client.completions.clear();
    region->reset();
    refused_access(t, Op::kWrite, remote);
    EXPECT_EQ(mine[63], std::byte{1});
}

void a_region_without_permission_is_not_written(Verbs& t) {
    t.receives = 3;
    t.connect();
    auto region = t.fabric->allocate(4096, Access::kRemoteRead);
    ASSERT_TRUE(region);
    refused_access(t, Op::kWrite, {(*region)->remote_address(), (*region)->rkey(0)});
    EXPECT_EQ((*region)->bytes()[0], std::byte{0});
}

void a_message_longer_than_its_receive_buffer_fails_on_both_sides(Verbs& t) {
    t.receives = 1;
    t.connect();
    ASSERT_EQ(t.post(t.client, {.op = Op::kSend}, t.segment(0, Verbs::kReceiveSize + 1)), Code::kOk);
    expect_both_closed(t, 1);
    EXPECT_EQ(t.server.completions[0].status, CompletionStatus::kLength);
    ASSERT_EQ(t.client.completions.size(), 1u);
    EXPECT_EQ(t.client.completions[0].status, CompletionStatus::kLength);
}

void a_segment_with_a_wrong_key_is_a_local_error(Verbs& t) {
    t.receives = 1;
    t.connect();
    Segment wrong = t.segment(0, 8);
    wrong.lkey += 0x100;
    ASSERT_EQ(t.post(t.client, {.op = Op::kSend, .cookie = 4}, wrong), Code::kOk);
    ASSERT_TRUE(t.until([&] { return t.client.closed && t.server.closed; }));
    ASSERT_EQ(t.client.completions.size(), 1u);
    EXPECT_EQ(t.client.completions[0].status, CompletionStatus::kLocalAccess);
}

// Sends that wait for a receive are stuck in the queue: closing must complete each of them.
void closing_flushes_everything_once(Verbs& t) {
    t.options.send_depth = 24;
    t.connect();
    t.post_receives(t.client, 20);
    WorkRequest send{.op = Op::kSend};
    for (uint64_t i = 0; i < 24; ++i) {
        send.cookie = i;
        send.signalled = i % 3 == 0;
        ASSERT_EQ(t.post(t.client, send, t.segment(0, 8)), Code::kOk);
    }
    t.client.connection->close();
    t.client.connection->close();
    EXPECT_EQ(t.post(t.client, send, t.segment(0, 8)), Code::kClosed);
    ASSERT_TRUE(t.until([&] { return t.client.closed && t.server.closed; }));
    EXPECT_EQ(t.client.why.code(), Code::kClosed);
    std::vector<int> seen(200, 0);
    for (const Completion& one : t.client.completions) {
        EXPECT_EQ(one.status, CompletionStatus::kFlushed);
        ++seen[one.cookie];
    }
    for (size_t i = 0; i < 24; ++i) EXPECT_EQ(seen[i], 1) << "send " << i;
    for (size_t i = 100; i < 120; ++i) EXPECT_EQ(seen[i], 1) << "receive " << i;
}

void the_peers_close_is_reported_without_traffic(Verbs& t) {
    t.receives = 2;
    t.connect();
    Nanoseconds start = SystemClock().now();
    t.client.connection->close();
    expect_both_closed(t, 2);
    EXPECT_LT((SystemClock().now() - start).count, from_ms(900).count)
        << "the disconnect is answered and does not time out";
}

void both_ends_can_close_at_the_same_time(Verbs& t) {
    t.receives = 2;
    t.connect();
    t.client.connection->close();
    t.server.connection->close();
    expect_both_closed(t, 2);
}

void connecting_where_nobody_listens_is_refused(Verbs& t) {
    t.listener.reset();
    t.start_connecting();
    ASSERT_TRUE(t.until([&] { return t.client.refused; }));
    EXPECT_EQ(t.client.why.code(), Code::kRefused);
    EXPECT_NE(t.client.why.text().find("no process listens"), std::string::npos) << t.client.why.to_string();
    EXPECT_EQ(t.client.data, "");
}

void a_reject_carries_its_data(Verbs& t) {
    t.hold = true;
    t.start_connecting();
    ASSERT_TRUE(t.until([&] { return t.held != nullptr; }));
    EXPECT_NE(t.held->peer().find(':'), std::string::npos);
    t.held->reject(bytes_of("no such volume"));
    ASSERT_TRUE(t.until([&] { return t.client.refused; }));
    EXPECT_EQ(t.client.why.code(), Code::kRefused);
    EXPECT_EQ(t.client.data, "no such volume");
}

void a_dropped_request_is_rejected_without_data(Verbs& t) {
    t.hold = true;
    t.start_connecting();
    ASSERT_TRUE(t.until([&] { return t.held != nullptr; }));
    t.held.reset();
    ASSERT_TRUE(t.until([&] { return t.client.refused; }));
    EXPECT_EQ(t.client.why.code(), Code::kRefused);
    EXPECT_EQ(t.client.data, "");
}

void an_unanswered_request_times_out(Verbs& t) {
    t.hold = true;
    t.options.connect_timeout = from_ms(300);
    Nanoseconds start = SystemClock().now();
    t.start_connecting();
    ASSERT_TRUE(t.until([&] { return t.client.refused; }));
    EXPECT_EQ(t.client.why.code(), Code::kTimedOut) << t.client.why.to_string();
    EXPECT_GE((SystemClock().now() - start).count, from_ms(300).count);
    EXPECT_LT((SystemClock().now() - start).count, from_s(10).count);
    // It is too late to accept the request: create() fails, or the connection ends.
    auto made = t.held->create(*t.server_poller, t.options, t.server);
    if (!made) return;
    t.server.connection = std::move(*made);
    [[maybe_unused]] Status accepted = t.server.connection->accept({});
    ASSERT_TRUE(t.until([&] { return t.server.closed; }));
}

void closing_while_connecting_calls_on_closed(Verbs& t) {
    t.hold = true;
    for (int turns : {0, 1, 70, 140, 210, 100'000}) {
        t.client = End();
        t.start_connecting();
        for (int i = 0; i < turns && t.held == nullptr; ++i) {
            t.client_poller->poll();
            t.server_poller->poll();
        }
        t.client.connection->close();
        ASSERT_TRUE(t.until([&] { return t.client.closed; })) << turns;
        EXPECT_FALSE(t.client.refused || t.client.established);
        t.client.connection.reset();
        t.held.reset();
    }
}

void an_unaccepted_connection_can_be_closed(Verbs& t) {
    t.memory = std::move(*t.fabric->allocate(Verbs::kMemory, Access::kLocal));
    t.hold = true;
    t.start_connecting();
    ASSERT_TRUE(t.until([&] { return t.held != nullptr; }));
    t.server.connection = std::move(*t.held->create(*t.server_poller, t.options, t.server));
    t.post_receives(t.server, 4);
    t.server.connection->close();
    ASSERT_TRUE(t.until([&] { return t.server.closed && t.client.refused; }));
    EXPECT_EQ(t.server.completions.size(), 4u);
}

void listening_on_a_taken_port_or_a_foreign_address_reports_why(Verbs& t) {
    auto second = t.server_poller->listen(t.where, t);
    ASSERT_FALSE(second);
    EXPECT_NE(second.status().text().find("another program uses the port"), std::string::npos)
        << second.status().to_string();
    Address elsewhere = t.where;
    elsewhere.host = "203.0.113.77";
    auto foreign = t.server_poller->listen(elsewhere, t);
    ASSERT_FALSE(foreign);
    EXPECT_NE(foreign.status().text().find("no RDMA device"), std::string::npos)
        << foreign.status().to_string();
}

void connecting_to_a_silent_address_fails_in_time(Verbs& t) {
    t.where.host = "10.87.0.250";
    t.options.connect_timeout = from_ms(1500);
    t.start_connecting();
    ASSERT_TRUE(t.until([&] { return t.client.refused; }, from_s(5)));
    EXPECT_NE(t.client.why.text().find("10.87.0.250"), std::string::npos) << t.client.why.to_string();
}

void a_queue_deeper_than_the_device_allows_is_refused(Verbs& t) {
    t.options.send_depth = 50'000'000;
    t.start_connecting();
    ASSERT_TRUE(t.until([&] { return t.client.refused; }));
    EXPECT_EQ(t.client.why.code(), Code::kInvalid) << t.client.why.to_string();
}

// Another process (verbs_roles.cc) connects, sends one message, and is killed without closing.
void a_killed_peer_closes_the_connection(Verbs& t) {
    t.memory = std::move(*t.fabric->allocate(Verbs::kMemory, Access::kRemoteReadWrite));
    t.receives = 2;
    // A child of fork() must not touch verbs objects of its parent, so it runs a fresh image that opens its
    // own.
    std::string address = t.where.to_string();
    pid_t child = fork();
    if (child == 0) {
        setenv("WSS_TEST_RDMA", address.c_str(), 1);
        setenv("WSS_TEST_RDMA_ROLE", "idle", 1);
        execl("/proc/self/exe", "idle", nullptr);
        _exit(1);
    }
    ASSERT_TRUE(t.until([&] { return t.server.completions.size() == 1; }));
    kill(child, SIGKILL);
    ASSERT_TRUE(t.until([&] { return t.server.closed; }));
    EXPECT_EQ(t.server.completions.size(), 2u);
    EXPECT_EQ(t.server.completions[1].status, CompletionStatus::kFlushed);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the child exited by itself: " << WEXITSTATUS(status);
}

// Under emulation a cycle takes tens of milliseconds; WSS_TEST_CYCLES sets the number of cycles.
void repeated_connections_leak_no_descriptor(Verbs& t) {
    const char* wanted = std::getenv("WSS_TEST_CYCLES");
    int cycles = wanted != nullptr ? std::atoi(wanted) : 200;
    size_t before = 0;
    Nanoseconds start{};
    t.memory = std::move(*t.fabric->allocate(Verbs::kMemory, Access::kRemoteReadWrite));
    for (int i = 0; i < cycles; ++i) {
        if (i == 10) before = open_descriptors();
        if (i % 1000 == 0) start = SystemClock().now();
        if (i % 1000 == 999)
            std::printf("cycle %d: %lld us each\n", i + 1,
                        static_cast<long long>((SystemClock().now() - start).count / 1'000'000));
        t.client = End();
        t.server = End();
        t.receives = static_cast<size_t>(i % 3);
        t.start_connecting();
        ASSERT_TRUE(t.until([&] { return t.client.established && t.server.established; })) << "cycle " << i;
        if (i % 2 == 0) {
            ASSERT_EQ(t.post(t.client, {.op = Op::kWrite, .remote = t.remote(0)}, t.segment(64, 64)),
                      Code::kOk);
        }
        (i % 4 < 2 ? t.client : t.server).connection->close();
        ASSERT_TRUE(t.until([&] { return t.client.closed && t.server.closed; })) << "cycle " << i;
        t.client.connection.reset();
        t.server.connection.reset();
    }
    EXPECT_EQ(open_descriptors(), before);
}

constexpr std::pair<const char*, VerbsBody> kTests[] = {
    VERBS_TEST(a_write_with_a_wrong_key_closes_both_sides),
    VERBS_TEST(a_read_out_of_bounds_closes_both_sides),
    VERBS_TEST(a_revoked_region_is_not_written),
    VERBS_TEST(a_region_without_permission_is_not_written),
    VERBS_TEST(a_message_longer_than_its_receive_buffer_fails_on_both_sides),
    VERBS_TEST(a_segment_with_a_wrong_key_is_a_local_error),
    VERBS_TEST(closing_flushes_everything_once),
    VERBS_TEST(the_peers_close_is_reported_without_traffic),
    VERBS_TEST(both_ends_can_close_at_the_same_time),
    VERBS_TEST(connecting_where_nobody_listens_is_refused),
    VERBS_TEST(a_reject_carries_its_data),
    VERBS_TEST(a_dropped_request_is_rejected_without_data),
    VERBS_TEST(an_unanswered_request_times_out),
    VERBS_TEST(closing_while_connecting_calls_on_closed),
    VERBS_TEST(an_unaccepted_connection_can_be_closed),
    VERBS_TEST(listening_on_a_taken_port_or_a_foreign_address_reports_why),
    VERBS_TEST(connecting_to_a_silent_address_fails_in_time),
    VERBS_TEST(a_queue_deeper_than_the_device_allows_is_refused),
    VERBS_TEST(a_killed_peer_closes_the_connection),
    VERBS_TEST(repeated_connections_leak_no_descriptor),
};

[[maybe_unused]] const bool registered = register_verbs_tests("VerbsClose", __FILE__, kTests);

}  // namespace
}  // namespace wss::fabric
