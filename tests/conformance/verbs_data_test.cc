// SPDX-License-Identifier: Apache-2.0
// Data over verbs: the four operations, inline limits, selective signalling, receivers that are not ready.
#include "tests/conformance/verbs_fixture.h"

namespace wss::fabric {
namespace {

void private_data_travels_both_ways(Verbs& t) {
    t.connect();
    EXPECT_EQ(t.requested, "hello");
    EXPECT_EQ(t.client.data, "welcome");
    EXPECT_EQ(t.server.data, "");
}

void messages_and_one_sided_operations_arrive(Verbs& t) {
    t.connect();
    t.post_receives(t.server, 2);
    memcpy(t.at(0), "written", 8);
    memcpy(t.at(64), "a message", 10);
    EXPECT_EQ(t.post(t.client, {.op = Op::kWrite, .cookie = 1, .remote = t.remote(4096)}, t.segment(0, 8)),
              Code::kOk);
    EXPECT_EQ(t.post(t.client, {.op = Op::kSend, .inlined = true, .cookie = 2}, t.segment(64, 10)),
              Code::kOk);
    EXPECT_EQ(t.post(t.client, {.op = Op::kRead, .cookie = 3, .remote = t.remote(4096)}, t.segment(8192, 8)),
              Code::kOk);
    EXPECT_EQ(
        t.post(t.client,
               {.op = Op::kWriteImmediate, .cookie = 4, .remote = t.remote(5000), .immediate = 0xabcd1234},
               t.segment(0, 8)),
        Code::kOk);
    ASSERT_TRUE(
        t.until([&] { return t.client.completions.size() == 4 && t.server.completions.size() == 2; }));
    const CompletionKind kinds[] = {CompletionKind::kWrite, CompletionKind::kSend, CompletionKind::kRead,
                                    CompletionKind::kWrite};
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(t.client.completions[i].cookie, i + 1);
        EXPECT_EQ(t.client.completions[i].status, CompletionStatus::kOk);
        EXPECT_EQ(t.client.completions[i].kind, kinds[i]);
    }
    EXPECT_STREQ(reinterpret_cast<char*>(t.at(4096)), "written");
    EXPECT_STREQ(reinterpret_cast<char*>(t.at(8192)), "written");
    EXPECT_STREQ(reinterpret_cast<char*>(t.at(5000)), "written");
    EXPECT_STREQ(reinterpret_cast<char*>(t.at(Verbs::kReceives)), "a message");
    EXPECT_EQ(t.server.completions[0].cookie, 100u);
    EXPECT_EQ(t.server.completions[0].kind, CompletionKind::kReceive);
    EXPECT_EQ(t.server.completions[0].length, 10u);
    EXPECT_EQ(t.server.completions[1].kind, CompletionKind::kReceiveImmediate);
    EXPECT_EQ(t.server.completions[1].immediate, 0xabcd1234u);
    EXPECT_EQ(t.server.completions[1].length, 8u);
}

void unsignalled_requests_free_their_queue_entries(Verbs& t) {
    t.options.send_depth = 16;
    t.connect();
    WorkRequest write{.op = Op::kWrite, .signalled = false, .remote = t.remote(4096)};
    for (int i = 0; i < 200; ++i) {
        Code code;
        ASSERT_TRUE(t.until([&] {
            code = t.post(t.client, write, t.segment(0, 8));
            return code != Code::kExhausted;
        }));
        ASSERT_EQ(code, Code::kOk);
    }
    write.signalled = true;
    write.cookie = 7;
    ASSERT_TRUE(t.until([&] { return t.post(t.client, write, t.segment(0, 8)) == Code::kOk; }));
    ASSERT_TRUE(t.until([&] { return !t.client.completions.empty(); }));
    EXPECT_EQ(t.client.completions.size(), 1u) << "requests signalled internally are not reported";
    EXPECT_EQ(t.client.completions[0].cookie, 7u);
}

void a_batch_larger_than_the_free_queue_entries_is_refused_entirely(Verbs& t) {
    t.options.send_depth = 40;
    t.connect();
    Segment one = t.segment(0, 8);
    std::vector<WorkRequest> batch(41, {.op = Op::kWrite, .segments = {&one, 1}, .remote = t.remote(4096)});
    EXPECT_EQ(t.client.connection->post(batch), Code::kExhausted);
    batch.pop_back();
    EXPECT_EQ(t.client.connection->post(batch), Code::kOk) << "the batch takes more than one doorbell";
    EXPECT_EQ(t.client.connection->post({batch.data(), 1}), Code::kExhausted);
    ASSERT_TRUE(t.until([&] { return t.client.completions.size() == 40; }));
    EXPECT_EQ(t.client.connection->post({batch.data(), 1}), Code::kOk);
    ASSERT_TRUE(t.until([&] { return t.client.completions.size() == 41; }));
}

void an_inlined_payload_may_change_after_post(Verbs& t) {
    t.connect();
    uint32_t limit = t.client.connection->limits().inline_max;
    ASSERT_GE(limit, 64u);
    t.post_receives(t.server, 1);
    memset(t.at(0), 0x5a, limit + 1);
    Segment payload{t.at(0), limit, 0};
    WorkRequest send{.op = Op::kSend, .inlined = true};
    EXPECT_EQ(t.post(t.client, send, {t.at(0), limit + 1, 0}), Code::kInvalid);
    ASSERT_EQ(t.post(t.client, send, payload), Code::kOk);
    memset(t.at(0), 0, limit);
    ASSERT_TRUE(t.until([&] { return !t.server.completions.empty(); }));
    EXPECT_EQ(t.server.completions[0].length, limit);
    EXPECT_EQ(t.at(Verbs::kReceives)[limit - 1], std::byte{0x5a});
}

void a_queue_pair_that_the_device_refuses_is_created_with_fewer_inline_bytes(Verbs& t) {
    t.options.inline_bytes = 1u << 20;  // more than any device supports
    an_inlined_payload_may_change_after_post(t);
    EXPECT_LT(t.client.connection->limits().inline_max, 1u << 20);
}

void a_send_waits_briefly_for_its_receive(Verbs& t) {
    t.connect();
    ASSERT_EQ(t.post(t.client, {.op = Op::kSend, .cookie = 9}, t.segment(0, 8)), Code::kOk);
    // The peer has reported by now that it is not ready.
    EXPECT_FALSE(t.until([&] { return !t.client.completions.empty(); }, from_ms(100)));
    t.post_receives(t.server, 1);
    Nanoseconds start = SystemClock().now();
    ASSERT_TRUE(t.until([&] { return !t.client.completions.empty() && !t.server.completions.empty(); }));
    EXPECT_EQ(t.client.completions[0].status, CompletionStatus::kOk);
    EXPECT_LT((SystemClock().now() - start).count, from_ms(300).count) << "the default wait would be 655 ms";
}

void scattered_segments_are_gathered(Verbs& t) {
    t.options.send_segments = t.fabric->caps().segments_max;
    t.connect();
    std::vector<Segment> segments;
    for (uint32_t i = 0; i < t.options.send_segments; ++i) {
        memset(t.at(i * 64), static_cast<int>(i + 1), 3);
        segments.push_back(t.segment(i * 64, 3));
    }
    std::vector<WorkRequest> batch(32, {.op = Op::kWrite, .segments = segments, .remote = t.remote(65536)});
    ASSERT_EQ(t.client.connection->post(batch), Code::kOk);
    ASSERT_TRUE(t.until([&] { return t.client.completions.size() == batch.size(); }));
    for (uint32_t i = 0; i < segments.size() * 3; ++i) EXPECT_EQ(t.at(65536)[i], std::byte(i / 3 + 1)) << i;
    segments.push_back(t.segment(0, 1));
    WorkRequest too_many{.op = Op::kWrite, .segments = segments, .remote = t.remote(65536)};
    EXPECT_EQ(t.client.connection->post({&too_many, 1}), Code::kInvalid);
}

// A client that answers `reads` READs at a time connects to a server that requests 16 in flight.
void ask_answering(Verbs& t, uint32_t reads) {
    t.hold = true;
    t.memory = std::move(*t.fabric->allocate(Verbs::kMemory, Access::kRemoteReadWrite));
    t.options.read_depth = reads;
    t.options.posts_reads = reads > 0;
    t.start_connecting();
    ASSERT_TRUE(t.until([&] { return t.held != nullptr; }));
}

void reads_in_flight_are_limited_to_what_the_peer_answers(Verbs& t) {
    ASSERT_NO_FATAL_FAILURE(ask_answering(t, 3));
    auto made = t.held->create(*t.server_poller, {}, t.server);
    ASSERT_TRUE(made) << made.status().to_string();
    t.server.connection = std::move(*made);
    ASSERT_TRUE(t.server.connection->accept({}));
    ASSERT_TRUE(t.until([&] { return t.client.established && t.server.established; }));
    EXPECT_EQ(t.server.connection->limits().read_depth, 3u);
    EXPECT_EQ(t.client.connection->limits().read_depth, 3u);
    memcpy(t.at(4096), "fetched", 8);
    WorkRequest read{.op = Op::kRead, .remote = t.remote(4096)};
    for (uint32_t i = 0; i < 20; ++i)
        ASSERT_EQ(t.post(t.server, read, t.segment(8192 + i * 64, 8)), Code::kOk) << "excess READs wait";
    ASSERT_TRUE(t.until([&] { return t.server.completions.size() == 20; }));
    EXPECT_STREQ(reinterpret_cast<char*>(t.at(8192 + 19 * 64)), "fetched");
}

void a_peer_that_answers_no_reads_is_refused_with_the_reason(Verbs& t) {
    ASSERT_NO_FATAL_FAILURE(ask_answering(t, 0));
    auto made = t.held->create(*t.server_poller, {}, t.server);
    ASSERT_FALSE(made) << "its READs would never complete";
    EXPECT_NE(made.status().text().find("the peer answers 0"), std::string::npos)
        << made.status().to_string();
    t.held->reject(bytes_of("it cannot be served"));
    ASSERT_TRUE(t.until([&] { return t.client.refused; }));
    EXPECT_EQ(t.client.data, "it cannot be served");
}

void a_connecting_side_refuses_a_peer_that_answers_no_reads(Verbs& t) {
    ASSERT_NO_FATAL_FAILURE(ask_answering(t, 16));
    auto made = t.held->create(*t.server_poller, {.read_depth = 0, .posts_reads = false}, t.server);
    ASSERT_TRUE(made) << made.status().to_string();
    t.server.connection = std::move(*made);
    ASSERT_TRUE(t.server.connection->accept({}));
    ASSERT_TRUE(t.until([&] { return t.client.refused && t.server.closed; }));
    EXPECT_NE(t.client.why.text().find("the peer answers 0"), std::string::npos) << t.client.why.to_string();
}

void a_peer_that_posts_no_receives_is_closed(Verbs& t) {
    t.connect();
    ASSERT_EQ(t.post(t.client, {.op = Op::kSend, .cookie = 9}, t.segment(0, 8)), Code::kOk);
    ASSERT_TRUE(t.until([&] { return t.client.closed; }, from_s(35)));
    // Soft RoCE of Linux 6.1 ends the connection by itself after 12 s, as it counts the refusals as missing
    // responses.
    EXPECT_EQ(t.client.why.code(), Code::kUnavailable) << t.client.why.to_string();
    ASSERT_EQ(t.client.completions.size(), 1u);
    EXPECT_NE(t.client.completions[0].status, CompletionStatus::kOk);
}

constexpr std::pair<const char*, VerbsBody> kTests[] = {
    VERBS_TEST(private_data_travels_both_ways),
    VERBS_TEST(messages_and_one_sided_operations_arrive),
    VERBS_TEST(unsignalled_requests_free_their_queue_entries),
    VERBS_TEST(a_batch_larger_than_the_free_queue_entries_is_refused_entirely),
    VERBS_TEST(an_inlined_payload_may_change_after_post),
    VERBS_TEST(a_queue_pair_that_the_device_refuses_is_created_with_fewer_inline_bytes),
    VERBS_TEST(a_send_waits_briefly_for_its_receive),
    VERBS_TEST(scattered_segments_are_gathered),
    VERBS_TEST(reads_in_flight_are_limited_to_what_the_peer_answers),
    VERBS_TEST(a_peer_that_answers_no_reads_is_refused_with_the_reason),
    VERBS_TEST(a_connecting_side_refuses_a_peer_that_answers_no_reads),
    VERBS_TEST(a_peer_that_posts_no_receives_is_closed),
};
[[maybe_unused]] const bool registered = register_verbs_tests("VerbsData", __FILE__, kTests);

}  // namespace
}  // namespace wss::fabric
