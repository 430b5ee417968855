// SPDX-License-Identifier: Apache-2.0
// F1, F2, F3, F7: operations, their order, and requests that are refused at once.
#include <array>

#include "tests/conformance/suite.h"

namespace wss::fabric::conformance {

TEST_P(OverAFabric, F1_a_send_arrives_with_its_bytes_and_completes_on_both_sides) {
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.fill(0, "hello");
    ASSERT_EQ(server_.receive(7, 100, 64), Code::kOk);
    ASSERT_EQ(client_.send(3, 0, 5), Code::kOk);
    ASSERT_TRUE(wait([&] { return server_.heard.done(7) && client_.heard.done(3); }));
    const Completion& receive = *server_.heard.find(7);
    EXPECT_EQ(receive.status, CompletionStatus::kOk);
    EXPECT_EQ(receive.kind, CompletionKind::kReceive);
    EXPECT_EQ(receive.length, 5u);
    EXPECT_EQ(server_.text(100, 5), "hello");
    EXPECT_EQ(client_.heard.find(3)->kind, CompletionKind::kSend);
    EXPECT_EQ(client_.heard.status(3), CompletionStatus::kOk);
}

TEST_P(OverAFabric, F1_sends_arrive_in_posting_order) {
    ASSERT_NO_FATAL_FAILURE(connect());
    for (uint32_t i = 0; i < 64; ++i) {
        std::memcpy(client_.at(i * 4), &i, 4);
        ASSERT_EQ(server_.receive(i, i * 4, 4), Code::kOk);
    }
    for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(client_.send(i, i * 4, 4, i == 63), Code::kOk);
    ASSERT_TRUE(wait([&] { return server_.heard.completions.size() == 64; }));
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(server_.heard.completions[i].cookie, i);
    EXPECT_EQ(std::memcmp(client_.at(0), server_.at(0), 256), 0);
}

TEST_P(OverAFabric, F1_a_send_is_delivered_after_the_writes_before_it_are_placed) {
    ASSERT_NO_FATAL_FAILURE(connect());
    constexpr uint32_t kBytes = 256u << 10;
    std::memset(client_.at(0), 0x5a, kBytes);
    bool placed = false;
    server_.heard.react = [&](Connection&, const Completion&) {
        placed = std::memcmp(server_.at(0), client_.at(0), kBytes) == 0;
    };
    ASSERT_EQ(server_.receive(1, kBytes, 16), Code::kOk);
    ASSERT_EQ(client_.write(2, 0, kBytes, server_.remote(0), false), Code::kOk);
    ASSERT_EQ(client_.send(3, 0, 16), Code::kOk);
    ASSERT_TRUE(wait([&] { return server_.heard.done(1) && client_.heard.done(3); }));
    EXPECT_TRUE(placed);
    EXPECT_FALSE(client_.heard.done(2)) << "an unsignalled success is not reported";
}

TEST_P(OverAFabric, F1_a_completed_write_is_in_the_peers_memory) {
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.fill(0, "one-sided");
    ASSERT_EQ(client_.write(1, 0, 9, server_.remote(500)), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.done(1); }));
    EXPECT_EQ(client_.heard.status(1), CompletionStatus::kOk);
    EXPECT_EQ(client_.heard.find(1)->kind, CompletionKind::kWrite);
    EXPECT_EQ(server_.text(500, 9), "one-sided");
    EXPECT_TRUE(server_.heard.completions.empty()) << "a plain WRITE is not reported to the peer";
}

// The target completes a request without data with an empty WRITE with Immediate, and fences a connection
// with an empty plain WRITE.
TEST_P(OverAFabric, F1_empty_writes_need_no_region_and_stay_in_order) {
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.fill(0, "before");
    ASSERT_EQ(server_.receive(7, 100, 0), Code::kOk);
    ASSERT_EQ(client_.write(1, 0, 6, server_.remote(500), false), Code::kOk);
    ASSERT_EQ(client_.post({.op = Op::kWrite, .cookie = 2}, {}), Code::kOk);
    ASSERT_EQ(client_.post({.op = Op::kWriteImmediate, .cookie = 3, .immediate = 0xabcdef01}, {}), Code::kOk);
    ASSERT_TRUE(
        wait([&] { return server_.heard.done(7) && client_.heard.done(2) && client_.heard.done(3); }));
    EXPECT_EQ(client_.heard.status(2), CompletionStatus::kOk);
    EXPECT_EQ(client_.heard.status(3), CompletionStatus::kOk);
    const Completion& receive = *server_.heard.find(7);
    EXPECT_EQ(receive.kind, CompletionKind::kReceiveImmediate);
    EXPECT_EQ(receive.immediate, 0xabcdef01u);
    EXPECT_EQ(receive.length, 0u);
    EXPECT_EQ(server_.text(500, 6), "before");
}

TEST_P(OverAFabric, F1_a_read_sees_the_write_before_it) {
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.fill(0, "there and back");
    ASSERT_EQ(client_.write(1, 0, 14, server_.remote(0), false), Code::kOk);
    ASSERT_EQ(client_.read(2, 1000, 14, server_.remote(0)), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.done(2); }));
    EXPECT_EQ(client_.heard.find(2)->kind, CompletionKind::kRead);
    EXPECT_EQ(client_.text(1000, 14), "there and back");
}

TEST_P(OverAFabric, F1_data_is_gathered_from_and_scattered_to_segments_in_order) {
    if (caps().segments_max < 2) GTEST_SKIP() << "one segment per request";
    options_.receive_segments = 2;
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.fill(0, "abc");
    client_.fill(100, "defgh");
    std::array segments{client_.segment(0, 3), client_.segment(100, 5)};
    std::array places{server_.segment(0, 2), server_.segment(50, 20)};
    Receive receive{.cookie = 1, .segments = places};
    ASSERT_EQ(server_.connection->post_receives({&receive, 1}), Code::kOk);
    ASSERT_EQ(client_.post({.op = Op::kSend, .cookie = 2}, segments), Code::kOk);
    ASSERT_EQ(client_.post({.op = Op::kWrite, .cookie = 3, .remote = server_.remote(200)}, segments),
              Code::kOk);
    std::vector<Segment> sinks{client_.segment(300, 1), client_.segment(301, 7)};
    if (client_.connection->limits().read_segments_max < 2) sinks = {client_.segment(300, 8)};
    ASSERT_EQ(client_.post({.op = Op::kRead, .cookie = 4, .remote = server_.remote(200)}, sinks), Code::kOk);
    ASSERT_TRUE(wait([&] { return server_.heard.done(1) && client_.heard.done(4); }));
    EXPECT_EQ(server_.text(0, 2) + server_.text(50, 6), "abcdefgh");
    EXPECT_EQ(server_.text(200, 8), "abcdefgh");
    EXPECT_EQ(client_.text(300, 8), "abcdefgh");
}

TEST_P(OverAFabric, F1_completions_arrive_in_posting_order_whichever_request_is_slowest) {
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_EQ(server_.receive(1, 0, 8), Code::kOk);
    ASSERT_EQ(client_.read(10, 0, 512u << 10, server_.remote(0)), Code::kOk);
    ASSERT_EQ(client_.write(11, 0, 8, server_.remote(1000)), Code::kOk);
    ASSERT_EQ(client_.send(12, 0, 8), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.completions.size() == 3; }));
    for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(client_.heard.completions[i].cookie, 10 + i);
}

TEST_P(OverAFabric, F1_reads_beyond_the_depth_wait) {
    options_.read_depth = 2;
    ASSERT_NO_FATAL_FAILURE(connect());
    for (uint32_t i = 0; i < 1000; ++i) std::memcpy(server_.at(i * 4), &i, 4);
    for (uint32_t i = 0; i < 50; ++i) ASSERT_EQ(client_.read(i, i * 4, 4, server_.remote(i * 4)), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.completions.size() == 50; }));
    EXPECT_EQ(std::memcmp(client_.at(0), server_.at(0), 200), 0);
}

TEST_P(OverAFabric, F1_write_immediate_consumes_a_receive_and_carries_its_value_after_its_data) {
    if (!caps().write_immediate) GTEST_SKIP() << "no WRITE with immediate here";
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.fill(0, "immediately");
    std::string seen;
    server_.heard.react = [&](Connection&, const Completion&) { seen = server_.text(700, 11); };
    ASSERT_EQ(server_.receive(1, 0, 0), Code::kOk);
    Segment one = client_.segment(0, 11);
    ASSERT_EQ(
        client_.post(
            {.op = Op::kWriteImmediate, .cookie = 2, .remote = server_.remote(700), .immediate = 0xfeedf00d},
            {&one, 1}),
        Code::kOk);
    ASSERT_TRUE(wait([&] { return server_.heard.done(1) && client_.heard.done(2); }));
    EXPECT_EQ(seen, "immediately");
    EXPECT_EQ(server_.heard.find(1)->kind, CompletionKind::kReceiveImmediate);
    EXPECT_EQ(server_.heard.find(1)->immediate, 0xfeedf00du);
    EXPECT_EQ(server_.heard.find(1)->length, 11u);
    EXPECT_EQ(client_.heard.find(2)->kind, CompletionKind::kWrite);
}

TEST_P(OverAFabric, F1_empty_messages_and_transfers_complete) {
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_EQ(server_.receive(1, 0, 16), Code::kOk);
    ASSERT_EQ(client_.post({.op = Op::kWrite, .cookie = 2, .remote = server_.remote(0)}, {}), Code::kOk);
    ASSERT_EQ(client_.post({.op = Op::kRead, .cookie = 3, .remote = server_.remote(0)}, {}), Code::kOk);
    ASSERT_EQ(client_.post({.op = Op::kSend, .cookie = 4}, {}), Code::kOk);
    ASSERT_TRUE(wait([&] { return server_.heard.done(1) && client_.heard.done(4); }));
    EXPECT_EQ(server_.heard.find(1)->length, 0u);
    for (uint64_t cookie : {2, 3, 4}) EXPECT_EQ(client_.heard.status(cookie), CompletionStatus::kOk);
}

TEST_P(OverAFabric, F2_an_inlined_payload_may_be_changed_as_soon_as_post_returns) {
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_GE(client_.connection->limits().inline_max, 64u);
    std::byte stack[64];  // not registered: lkeys are not checked
    std::memset(stack, 'a', sizeof stack);
    ASSERT_EQ(server_.receive(1, 0, 64), Code::kOk);
    Segment one{.address = stack, .length = sizeof stack, .lkey = 0};
    ASSERT_EQ(client_.post({.op = Op::kSend, .inlined = true, .cookie = 2}, {&one, 1}), Code::kOk);
    std::memset(stack, 'b', sizeof stack);
    ASSERT_TRUE(wait([&] { return server_.heard.done(1); }));
    EXPECT_EQ(server_.text(0, 64), std::string(64, 'a'));
}

TEST_P(OverAFabric, F2_an_unsignalled_failure_is_reported) {
    ASSERT_NO_FATAL_FAILURE(connect());
    RemoteAddress wrong = server_.remote(0);
    wrong.rkey ^= 0x5aa55aa5;
    ASSERT_EQ(client_.write(9, 0, 8, wrong, false), Code::kOk);
    ASSERT_TRUE(wait([&] { return both_closed(); }));
    EXPECT_EQ(client_.heard.status(9), CompletionStatus::kRemoteAccess);
}

TEST_P(OverAFabric, F3_a_send_waits_for_a_receive) {
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.fill(0, "patience");
    ASSERT_EQ(client_.send(1, 0, 8), Code::kOk);
    for (int i = 0; i < 1000; ++i) turn();
    EXPECT_FALSE(client_.heard.done(1)) << "no receive was posted";
    EXPECT_FALSE(client_.heard.closed);
    ASSERT_EQ(server_.receive(2, 64, 8), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.done(1) && server_.heard.done(2); }));
    EXPECT_EQ(server_.text(64, 8), "patience");
}

TEST_P(OverAFabric, F3_a_waiting_send_does_not_block_the_requests_of_the_peer) {
    // The peer posts its receive only after its own READ. If a waiting SEND blocked other requests, that
    // would be a deadlock.
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.fill(0, "needed first");
    ASSERT_EQ(client_.send(1, 0, 12), Code::kOk);
    for (int i = 0; i < 100; ++i) turn();
    server_.heard.react = [&](Connection&, const Completion& completion) {
        if (completion.kind == CompletionKind::kReceive) return;
        EXPECT_EQ(server_.receive(3, 64, 16), Code::kOk);
    };
    ASSERT_EQ(server_.read(2, 0, 12, client_.remote(0)), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.done(1) && server_.heard.done(3); }));
}

TEST_P(OverAFabric, F7_a_full_send_queue_refuses_all_of_a_batch_and_recovers) {
    options_.send_depth = 8;
    ASSERT_NO_FATAL_FAILURE(connect());
    Segment one = client_.segment(0, 4);
    std::vector<WorkRequest> batch(6, WorkRequest{.op = Op::kSend, .segments = {&one, 1}});
    for (size_t i = 0; i < batch.size(); ++i) batch[i].cookie = i;
    ASSERT_EQ(client_.connection->post(batch), Code::kOk);
    for (WorkRequest& request : batch) request.cookie += 100;
    EXPECT_EQ(client_.connection->post(batch), Code::kExhausted) << "6 + 6 do not fit in 8";
    for (size_t i = 0; i < 8; ++i) ASSERT_EQ(server_.receive(1000 + i, 0, 4), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.completions.size() == 6; }));
    for (const Completion& completion : client_.heard.completions) EXPECT_LT(completion.cookie, 100u);
    batch.resize(2);
    EXPECT_EQ(client_.connection->post(batch), Code::kOk) << "completions make room";
    ASSERT_TRUE(wait([&] { return client_.heard.completions.size() == 8; }));
}

TEST_P(OverAFabric, F7_a_full_receive_queue_refuses_all_of_a_batch) {
    options_.receive_depth = 4;
    ASSERT_NO_FATAL_FAILURE(connect());
    Segment one = server_.segment(0, 4);
    std::vector<Receive> batch(3, Receive{.cookie = 1, .segments = {&one, 1}});
    ASSERT_EQ(server_.connection->post_receives(batch), Code::kOk);
    EXPECT_EQ(server_.connection->post_receives(batch), Code::kExhausted);
    EXPECT_EQ(server_.connection->post_receives({batch.data(), 1}), Code::kOk);
}

TEST_P(OverAFabric, F7_requests_beyond_the_capabilities_are_refused_at_once) {
    ASSERT_NO_FATAL_FAILURE(connect());
    std::vector<Segment> many(options_.send_segments + 1, client_.segment(0, 1));
    if (many.size() > caps().segments_max) many.resize(caps().segments_max + 1, many[0]);
    EXPECT_EQ(client_.post({.op = Op::kSend}, many), Code::kInvalid);
    std::vector<Segment> sinks(client_.connection->limits().read_segments_max + 1, client_.segment(0, 1));
    EXPECT_EQ(client_.post({.op = Op::kRead, .remote = server_.remote(0)}, sinks), Code::kInvalid);
    Segment big = client_.segment(0, client_.connection->limits().inline_max + 1);
    EXPECT_EQ(client_.post({.op = Op::kSend, .inlined = true}, {&big, 1}), Code::kInvalid);
    if (!caps().send_invalidate) {
        Segment one = client_.segment(0, 1);
        EXPECT_EQ(client_.post({.op = Op::kSendInvalidate}, {&one, 1}), Code::kInvalid);
    }
}

}  // namespace wss::fabric::conformance
