// SPDX-License-Identifier: Apache-2.0
// The limits of a verbs connection with devices and peers that support less than it requests.
#include "lib/fabric/verbs/negotiation.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "lib/fabric/verbs/take_watch.h"

namespace wss::fabric::verbs {
namespace {

// A device that creates queue pairs within its limits, and overwrites the attributes of those that it
// refuses.
struct FakeDevice {
    uint32_t work_requests_max = 4096;
    uint32_t inline_max = 1024;
    uint32_t segments_max = 32;
    // Size limit of the send queue, with inlined bytes and segments.
    uint32_t bytes_max = 1u << 20;
    std::vector<ibv_qp_cap> asked;

    int create(ibv_qp_init_attr& attributes) {
        ibv_qp_cap& cap = attributes.cap;
        asked.push_back(cap);
        const uint32_t bytes = cap.max_send_wr * (cap.max_inline_data + 16 * cap.max_send_sge);
        if (cap.max_send_wr <= work_requests_max && cap.max_inline_data <= inline_max &&
            std::max(cap.max_send_sge, cap.max_recv_sge) <= segments_max && bytes <= bytes_max)
            return 0;
        cap = {};
        return EINVAL;
    }
    int make(ibv_qp_init_attr& attributes) {
        return create_queue_pair(attributes, [this](ibv_qp_init_attr& each) { return create(each); });
    }
};

ibv_qp_init_attr wish(uint32_t depth, uint32_t segments, uint32_t inlined) {
    ibv_qp_init_attr attributes{};
    attributes.cap = {.max_send_wr = depth,
                      .max_recv_wr = depth,
                      .max_send_sge = segments,
                      .max_recv_sge = segments,
                      .max_inline_data = inlined};
    return attributes;
}

TEST(VerbsNegotiation, sends_one_request_to_a_device_that_supports_everything) {
    FakeDevice device;
    ibv_qp_init_attr attributes = wish(289, 2, 256);
    ASSERT_EQ(device.make(attributes), 0);
    EXPECT_EQ(device.asked.size(), 1u);
    EXPECT_EQ(attributes.cap.max_inline_data, 256u);
}

TEST(VerbsNegotiation, requests_a_refused_queue_pair_again_with_fewer_inline_bytes) {
    for (uint32_t inline_max : {200u, 64u, 60u, 0u}) {
        FakeDevice device{.inline_max = inline_max};
        ibv_qp_init_attr attributes = wish(289, 2, 256);
        ASSERT_EQ(device.make(attributes), 0) << inline_max;
        EXPECT_LE(attributes.cap.max_inline_data, inline_max);
        EXPECT_GE(2 * attributes.cap.max_inline_data, std::min(inline_max, 128u));
        EXPECT_EQ(attributes.cap.max_send_sge, 2u) << "inlining is dispensable";
        EXPECT_EQ(attributes.cap.max_send_wr, 289u);
    }
}

TEST(VerbsNegotiation, gives_a_long_queue_fewer_inline_bytes_than_a_short_one) {
    FakeDevice device{.bytes_max = 32u << 10};
    ibv_qp_init_attr shorter = wish(1, 1, 256);
    ibv_qp_init_attr longer = wish(289, 1, 256);
    ASSERT_EQ(device.make(shorter), 0);
    ASSERT_EQ(device.make(longer), 0);
    EXPECT_EQ(shorter.cap.max_inline_data, 256u);
    EXPECT_EQ(longer.cap.max_inline_data, 64u);
}

TEST(VerbsNegotiation, requests_a_queue_pair_that_is_refused_without_inlining_with_fewer_segments) {
    FakeDevice device{.segments_max = 3};
    ibv_qp_init_attr attributes = wish(64, 16, 64);
    ASSERT_EQ(device.make(attributes), 0);
    EXPECT_EQ(attributes.cap.max_send_sge, 2u);
    EXPECT_EQ(attributes.cap.max_recv_sge, 2u);
}

TEST(VerbsNegotiation, sends_a_limited_number_of_requests_to_a_device_that_refuses_everything) {
    FakeDevice device{.work_requests_max = 0};
    ibv_qp_init_attr attributes = wish(64, 16, 256);
    EXPECT_EQ(device.make(attributes), EINVAL);
    // Inlined bytes from 256 down to 16 and none, then 8, 4, 2 and 1 segments.
    EXPECT_EQ(device.asked.size(), 10u);
    for (const ibv_qp_cap& cap : device.asked) EXPECT_EQ(cap.max_send_wr, 64u) << "the depth is required";
}

TEST(VerbsNegotiation, gives_a_read_no_more_segments_than_the_device_supports_for_reads) {
    EXPECT_EQ(read_segments({.max_sge = 30, .max_sge_rd = 1}), 1u);
    EXPECT_EQ(read_segments({.max_sge = 16, .max_sge_rd = 30}), 16u);
    EXPECT_EQ(read_segments({.max_sge = 30, .max_sge_rd = 0}), 30u) << "the device does not report it";
}

TEST(VerbsNegotiation, applies_the_segment_limit_of_reads_to_reads_only) {
    const ConnectionLimits limits{.segments_max = 4, .read_segments_max = 1};
    EXPECT_EQ(segments_max(Op::kRead, limits), 1u);
    for (Op op : {Op::kSend, Op::kSendInvalidate, Op::kWrite, Op::kWriteImmediate})
        EXPECT_EQ(segments_max(op, limits), 4u);
}

TEST(VerbsNegotiation, sets_reads_in_flight_to_the_minimum_of_options_device_and_peer) {
    EXPECT_EQ(*agree_on_reads({.read_depth = 16}, 128, 4), 4u);
    EXPECT_EQ(*agree_on_reads({.read_depth = 16}, 2, 4), 2u);
    EXPECT_EQ(*agree_on_reads({.read_depth = 1}, 128, 255), 1u);
}

TEST(VerbsNegotiation, lets_sides_that_post_reads_refuse_a_peer_that_answers_none) {
    auto refused = agree_on_reads({.read_depth = 16}, 128, 0);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.status().code(), Code::kUnsupported);
    EXPECT_NE(refused.status().text().find("the peer answers 0"), std::string::npos)
        << refused.status().to_string();
    auto useless = agree_on_reads({.read_depth = 16}, 0, 16);
    ASSERT_FALSE(useless);
    EXPECT_NE(useless.status().text().find("this device issues 0"), std::string::npos);
    EXPECT_EQ(*agree_on_reads({.read_depth = 16, .posts_reads = false}, 128, 0), 0u);
}

TEST(TakeWatch, reports_a_peer_that_consumed_nothing_between_two_checks_as_stuck) {
    TakeWatch watch;
    EXPECT_FALSE(watch.is_stuck(true, 7)) << "it may have been posted just now";
    EXPECT_TRUE(watch.is_stuck(true, 7));
}

TEST(TakeWatch, does_not_report_a_slow_peer_or_an_idle_connection_as_stuck) {
    TakeWatch watch;
    for (uint32_t done = 0; done < 10; ++done) EXPECT_FALSE(watch.is_stuck(true, done));
    for (int look = 0; look < 3; ++look) EXPECT_FALSE(watch.is_stuck(false, 10));
    EXPECT_FALSE(watch.is_stuck(true, 10)) << "nothing was awaited at the previous look";
    EXPECT_FALSE(watch.is_stuck(false, 10));
}

}  // namespace
}  // namespace wss::fabric::verbs
