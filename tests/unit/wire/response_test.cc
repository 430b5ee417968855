// SPDX-License-Identifier: Apache-2.0
// SRP_RSP, the fused completion and the small messages.
#include <gtest/gtest.h>

#include "lib/wire/srp.h"
#include "tests/unit/wire/hex.h"

namespace wss::wire {
namespace {

uint64_t tag_of(std::string_view hex) {
    uint64_t tag;
    std::memcpy(&tag, from_hex(hex).data(), sizeof(tag));
    return tag;
}

TEST(Response, that_is_good_has_36_bytes) {
    std::array<std::byte, 64> out;
    ASSERT_EQ(encode_response({.tag = tag_of("0000000000010007"), .credits = 1}, out), 36u);
    EXPECT_EQ(to_hex(Bytes(out).first(36)),
              spaced("c1 00 0000 00000001 0000000000010007 0000 00 00 00000000 00000000 00000000 00000000"));
}

TEST(Response, of_check_condition_carries_sense_and_residual) {
    std::vector<std::byte> sense = from_hex("70 00 05 00000000 0a 00000000 24 00 00 cf0005");
    std::array<std::byte, 128> out;
    Response response{.tag = tag_of("0000000000010007"), .credits = 3, .status = 2};
    response.in = {Residual::Kind::kUnder, 4096};
    response.sense = sense;
    size_t length = encode_response(response, out);
    ASSERT_EQ(length, 36u + 18);
    EXPECT_EQ(to_hex(Bytes(out).first(36)),
              spaced("c1 00 0000 00000003 0000000000010007 0000 22 02 00000000 00001000 00000012 00000000"));
    Response back;
    ASSERT_EQ(parse_response(Bytes(out).first(length), back), ParseError::kNone);
    EXPECT_EQ(back.status, 2);
    EXPECT_EQ(back.credits, 3u);
    EXPECT_EQ(back.in, response.in);
    EXPECT_EQ(back.out, Residual{});
    EXPECT_EQ(to_hex(back.sense), to_hex(sense));
    EXPECT_FALSE(back.has_task_status);
}

TEST(Response, to_task_management_has_its_status_in_byte_three) {
    std::array<std::byte, 64> out;
    Response response{.tag = 1, .credits = 1, .has_task_status = true, .task_status = 5};
    size_t length = encode_response(response, out);
    ASSERT_EQ(length, 40u);
    EXPECT_EQ(to_hex(Bytes(out).subspan(18, 22)),
              spaced("01 00 00000000 00000000 00000000 00000004 00000005"));
    Response back;
    ASSERT_EQ(parse_response(Bytes(out).first(length), back), ParseError::kNone);
    EXPECT_TRUE(back.has_task_status);
    EXPECT_EQ(back.task_status, 5);
}

TEST(Response, has_its_sense_after_response_data_of_any_length) {
    std::vector<std::byte> message = from_hex(
        "c1 00 0000 00000001 0000000000010007 0000 03 02 00000000 00000000 00000002"
        "00000008 0000000400000000 aabb");
    Response back;
    ASSERT_EQ(parse_response(message, back), ParseError::kNone);
    EXPECT_EQ(back.task_status, 4);
    EXPECT_EQ(to_hex(back.sense), "aa bb");
}

TEST(Response, with_contradictory_fields_is_refused) {
    constexpr size_t kFlags = 18, kCredits = 4, kSenseLength = 28, kResponseLength = 32;
    std::vector<std::byte> good =
        from_hex("c1 00 0000 00000001 0000000000010007 0000 00 00 00000000 00000000 00000000 00000000");
    Response back;
    ASSERT_EQ(parse_response(good, back), ParseError::kNone);
    EXPECT_EQ(parse_response(Bytes(good).first(35), back), ParseError::kTooShort);

    auto refused = [&](auto change) {
        std::vector<std::byte> bad = good;
        bad.resize(44);
        change(bad.data());
        return parse_response(bad, back);
    };
    EXPECT_EQ(refused([](std::byte* m) { put8(m, 0xc0); }), ParseError::kOpcode);
    EXPECT_EQ(refused([](std::byte* m) { put8(m + kFlags, 0x0c); }), ParseError::kContradiction)
        << "over and under";
    EXPECT_EQ(refused([](std::byte* m) { put8(m + kFlags, 0x30); }), ParseError::kContradiction);
    EXPECT_EQ(refused([](std::byte* m) { put32(m + kCredits, 0x80000000); }), ParseError::kContradiction);
    EXPECT_EQ(refused([](std::byte* m) { put32(m + kSenseLength, 1); }), ParseError::kContradiction)
        << "sense without its flag";
    EXPECT_EQ(refused([](std::byte* m) { put32(m + kResponseLength, 4); }), ParseError::kContradiction);
    EXPECT_EQ(refused([](std::byte* m) { put8(m + kFlags, 1), put32(m + kResponseLength, 3); }),
              ParseError::kContradiction)
        << "the status would lie outside";
    EXPECT_EQ(refused([](std::byte* m) { put8(m + kFlags, 2), put32(m + kSenseLength, 9); }),
              ParseError::kOutOfBounds);
    EXPECT_EQ(refused([](std::byte* m) {
                  put8(m + kFlags, 3), put32(m + kSenseLength, 0xfffffff8), put32(m + kResponseLength, 8);
              }),
              ParseError::kOutOfBounds)
        << "the sum wraps in 32 bits";
}

TEST(Response, that_does_not_fit_is_not_written) {
    std::vector<std::byte> sense(18), room(64, std::byte{0xee});
    Response response{.status = 2};
    response.sense = sense;
    for (size_t size = 0; size < 54; size++)
        EXPECT_EQ(encode_response(response, MutableBytes(room).first(size)), 0u);
    EXPECT_EQ(get8(room.data()), 0xee);
}

TEST(FusedCompletion, has_tag_above_credits) {
    EXPECT_EQ(pack_fused({.tag = 0x1234, .credits = 0x56}), 0x12345600u);
    FusedCompletion back;
    ASSERT_EQ(unpack_fused(0x12345600, back), ParseError::kNone);
    EXPECT_EQ(back, (FusedCompletion{0x1234, 0x56}));
    EXPECT_EQ(unpack_fused(0x12345601, back), ParseError::kReserved);
}

TEST(Done, has_credits_and_tags_in_order) {
    std::array<std::byte, 64> room;
    const std::array<uint16_t, 3> tags = {0x1234, 0, 0xffff};
    ASSERT_EQ(encode_done(5, tags, room), 14u);
    EXPECT_EQ(to_hex(Bytes(room).first(14)), spaced("f6030000 00000005 1234 0000 ffff"));
    Done back;
    ASSERT_EQ(parse_done(Bytes(room).first(14), back), ParseError::kNone);
    EXPECT_EQ(back.credits, 5u);
    ASSERT_EQ(back.count(), 3u);
    for (size_t i = 0; i < tags.size(); ++i) EXPECT_EQ(back.tag(i), tags[i]);
}

TEST(Done, without_tags_or_beyond_its_message_is_refused) {
    std::array<std::byte, 256> room;
    const std::vector<uint16_t> tags(kDoneMax + 1, 7);
    auto parsed = [&](size_t length) {
        Done done;
        return parse_done(Bytes(room).first(length), done);
    };
    EXPECT_EQ(encode_done(1, {}, room), 0u);
    EXPECT_EQ(encode_done(1, tags, room), 0u);
    ASSERT_EQ(encode_done(1, std::span(tags).first(kDoneMax), room), 256u);
    EXPECT_EQ(encode_done(1, std::span(tags).first(2), MutableBytes(room).first(11)), 0u);
    EXPECT_EQ(parsed(256), ParseError::kNone);
    EXPECT_EQ(parsed(255), ParseError::kOutOfBounds);
    EXPECT_EQ(parsed(7), ParseError::kTooShort);
    put8(room.data() + 1, 0);
    EXPECT_EQ(parsed(256), ParseError::kContradiction);
    put8(room.data() + 1, 1);
    EXPECT_EQ(parsed(256), ParseError::kNone) << "bytes after the tags are ignored";
    put8(room.data() + 3, 1);
    EXPECT_EQ(parsed(256), ParseError::kReserved);
    put8(room.data(), 0xf5);
    EXPECT_EQ(parsed(256), ParseError::kOpcode);
}

TEST(SmallMessages, have_sixteen_bytes_and_are_parsed_as_they_were_encoded) {
    std::array<std::byte, 16> out;
    uint64_t tag = tag_of("0000000000000009");

    for (uint8_t opcode : {0x41, 0x42, 0x03, 0x70, 0xf0}) {
        ASSERT_EQ(encode_short({opcode, tag}, out), 16u);
        EXPECT_EQ(get8(out.data()), opcode);
        EXPECT_EQ(to_hex(Bytes(out).subspan(1)), spaced("00000000000000 0000000000000009"));
        ShortMessage back;
        ASSERT_EQ(parse_short(out, back), ParseError::kNone);
        EXPECT_EQ(back.tag, tag);
        EXPECT_EQ(back.opcode, opcode);
    }
    EXPECT_EQ(encode_short({WSS_SRP_CMD, tag}, out), 0u);

    ASSERT_EQ(encode_credit_request({tag, 5}, out), 16u);
    EXPECT_EQ(to_hex(out), spaced("81 00 0000 00000005 0000000000000009"));
    CreditRequest credits;
    ASSERT_EQ(parse_credit_request(out, credits), ParseError::kNone);
    EXPECT_EQ(credits.credits, 5u);

    ASSERT_EQ(encode_target_logout({tag, 1}, out), 16u);
    EXPECT_EQ(to_hex(out), spaced("80 00 0000 00000001 0000000000000009"));
    TargetLogout logout;
    ASSERT_EQ(parse_target_logout(out, logout), ParseError::kNone);
    EXPECT_EQ(logout.reason, 1u);

    ASSERT_EQ(encode_notify({WSS_SRP_NOTIFY_RESIZED, 3}, out), 16u);
    EXPECT_EQ(to_hex(out), spaced("f1 01 000000000000 0003000000000000"));
    Notify notify;
    ASSERT_EQ(parse_notify(out, notify), ParseError::kNone);
    EXPECT_EQ(notify.lun, 3u);
    EXPECT_EQ(notify.event, WSS_SRP_NOTIFY_RESIZED);
}

TEST(AsyncEvent, of_a_stock_target_is_parsed) {
    std::vector<std::byte> message =
        from_hex("82 00 0000 00000002 0000000000000009 00000000 0003000000000000 00000002 00000000 aabb");
    AsyncEvent event;
    ASSERT_EQ(parse_async_event(message, event), ParseError::kNone);
    EXPECT_EQ(event.credits, 2u);
    EXPECT_EQ(event.lun, 3u);
    EXPECT_EQ(event.tag, tag_of("0000000000000009"));
    EXPECT_EQ(to_hex(event.sense), "aa bb");
    std::array<std::byte, 64> out;
    ASSERT_EQ(encode_async_event(event, out), message.size());
    EXPECT_EQ(to_hex(Bytes(out).first(message.size())), to_hex(message));
    put32(&message[28], 3);
    EXPECT_EQ(parse_async_event(message, event), ParseError::kOutOfBounds);
}

}  // namespace
}  // namespace wss::wire
