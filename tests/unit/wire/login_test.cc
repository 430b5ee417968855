// SPDX-License-Identifier: Apache-2.0
// Login messages against bytes that were derived by hand from Linux's struct srp_login_req_rdma and related
// structs.
#include <gtest/gtest.h>

#include "lib/wire/srp.h"
#include "lib/wire/text.h"
#include "tests/unit/wire/hex.h"

namespace wss::wire {
namespace {

// The login of a stock ib_srp for its first channel: 8 KiB of immediate data, no extension.
constexpr std::string_view kStockLogin =
    "0000000000000000 0006 80 00 00002044"
    "00112233445566778899aabbccddeeff"
    "0102030405060708090a0b0c0d0e0f10"
    "0044 0000 00000000";

TEST(LoginRequest, of_a_stock_initiator_is_parsed) {
    LoginRequest request;
    ASSERT_EQ(parse_login_request(from_hex(kStockLogin), request), ParseError::kNone);
    EXPECT_EQ(request.buffer_formats, WSS_SRP_BUF_FORMAT_DIRECT | WSS_SRP_BUF_FORMAT_INDIRECT);
    EXPECT_FALSE(request.multi_channel);
    EXPECT_TRUE(request.immediate);
    EXPECT_EQ(request.max_it_iu, 8260u);
    EXPECT_EQ(request.initiator_port[1], 0x11);
    EXPECT_EQ(request.target_port[15], 0x10);
    EXPECT_EQ(request.imm_data_offset, 68);
    EXPECT_FALSE(request.extended);
    EXPECT_EQ(request.caps, 0u);
}

TEST(LoginRequest, keeps_its_bytes_through_parse_and_encode) {
    LoginRequest request;
    ASSERT_EQ(parse_login_request(from_hex(kStockLogin), request), ParseError::kNone);
    std::array<std::byte, 56> out;
    ASSERT_EQ(encode_login_request(request, out), out.size());
    EXPECT_EQ(to_hex(out), spaced(kStockLogin));
}

TEST(LoginRequest, carries_capabilities_only_after_the_magic) {
    std::vector<std::byte> bytes = from_hex(kStockLogin);
    put32(&bytes[52], WSS_CAP_ALL);
    LoginRequest request;
    ASSERT_EQ(parse_login_request(bytes, request), ParseError::kNone);
    EXPECT_FALSE(request.extended);
    EXPECT_EQ(request.caps, 0u) << "garbage in reserved bytes must not turn features on";
    put16(&bytes[50], 0x5753);
    ASSERT_EQ(parse_login_request(bytes, request), ParseError::kNone);
    EXPECT_TRUE(request.extended);
    EXPECT_EQ(request.caps, uint32_t{WSS_CAP_ALL});
}

TEST(LoginRequest, padded_by_the_connection_manager_is_parsed) {
    std::vector<std::byte> bytes = from_hex(kStockLogin);
    bytes.resize(92);
    LoginRequest request;
    EXPECT_EQ(parse_login_request(bytes, request), ParseError::kNone);
}

TEST(LoginRequest, that_is_invalid_is_refused) {
    LoginRequest request;
    std::vector<std::byte> bytes = from_hex(kStockLogin);
    EXPECT_EQ(parse_login_request(Bytes(bytes).first(55), request), ParseError::kTooShort);
    put8(&bytes[11], WSS_SRP_CMD);
    EXPECT_EQ(parse_login_request(bytes, request), ParseError::kOpcode);
    bytes = from_hex(kStockLogin);
    put8(&bytes[10], 2);
    EXPECT_EQ(parse_login_request(bytes, request), ParseError::kFormat)
        << "multi-channel action 2 is reserved";
    bytes = from_hex(kStockLogin);
    put16(&bytes[48], 51);
    EXPECT_EQ(parse_login_request(bytes, request), ParseError::kContradiction)
        << "immediate data would overlap the command";
}

TEST(LoginResponse, has_the_bytes_that_linux_reads) {
    LoginResponse response{.tag = 0,
                           .credits = 128,
                           .max_it_iu = 16452,
                           .max_ti_iu = 256,
                           .multi_channel = MultiChannelResult::kTerminated,
                           .immediate = true,
                           .extended = true,
                           .caps = WSS_CAP_FUSED_COMPLETION | WSS_CAP_KEEPALIVE,
                           .keepalive_ms = 5000,
                           .session_epoch = 7};
    std::array<std::byte, 52> out;
    ASSERT_EQ(encode_login_response(response, out), out.size());
    EXPECT_EQ(to_hex(out), spaced("c0 000000 00000080 0000000000000000 00004044 00000100 0006 81 00"
                                  "5753 0000 00000006 00001388 0000000000000007 00000000"));
    LoginResponse back;
    ASSERT_EQ(parse_login_response(out, back), ParseError::kNone);
    EXPECT_EQ(back.session_epoch, 7u);
    EXPECT_EQ(back.keepalive_ms, 5000u);
    EXPECT_EQ(back.multi_channel, MultiChannelResult::kTerminated);
    EXPECT_TRUE(back.immediate);
}

TEST(LoginResponse, that_would_block_the_initiator_is_refused) {
    std::array<std::byte, 52> out;
    LoginResponse back;
    encode_login_response({.credits = 0, .max_it_iu = 64, .max_ti_iu = 36}, out);
    EXPECT_EQ(parse_login_response(out, back), ParseError::kContradiction);
    encode_login_response({.credits = 0x80000000, .max_it_iu = 64, .max_ti_iu = 36}, out);
    EXPECT_EQ(parse_login_response(out, back), ParseError::kContradiction);
    encode_login_response({.credits = 1, .max_it_iu = 63, .max_ti_iu = 36}, out);
    EXPECT_EQ(parse_login_response(out, back), ParseError::kContradiction);
    encode_login_response({.credits = 1, .max_it_iu = 64, .max_ti_iu = 35}, out);
    EXPECT_EQ(parse_login_response(out, back), ParseError::kContradiction);
    encode_login_response({.credits = 1, .max_it_iu = 64, .max_ti_iu = 36}, out);
    EXPECT_EQ(parse_login_response(out, back), ParseError::kNone);
    put8(&out[26], 3);
    EXPECT_EQ(parse_login_response(out, back), ParseError::kFormat);
}

TEST(LoginReject, carries_its_reason_as_text) {
    LoginReject reject;
    reject.reason = WSS_SRP_REJ_INSUFFICIENT_RESOURCES;
    reject.set_text("no volume \"data\"; there are: a, b");
    std::array<std::byte, 148> out;
    ASSERT_EQ(encode_login_reject(reject, out), out.size());
    EXPECT_EQ(to_hex(Bytes(out).first(32)),
              spaced("c2 000000 00010001 0000000000000000 0000000000000000 0006 000000000000"));
    LoginReject back;
    ASSERT_EQ(parse_login_reject(out, back), ParseError::kNone);
    EXPECT_EQ(back.text(), "no volume \"data\"; there are: a, b");
    EXPECT_EQ(back.reason, uint32_t{WSS_SRP_REJ_INSUFFICIENT_RESOURCES});
}

TEST(LoginReject, of_a_stock_target_has_no_text) {
    LoginReject reject;
    ASSERT_EQ(parse_login_reject(
                  from_hex("c2 000000 00010003 0000000000000000 0000000000000000 0006 000000000000"), reject),
              ParseError::kNone);
    EXPECT_TRUE(reject.text().empty());
    EXPECT_EQ(reject_reason_text(reject.reason), "no such target port, or not for this initiator");
}

std::string printable(std::string_view text, size_t room = 116) {
    std::string out(room, '\0');
    out.resize(copy_printable(text, out));
    return out;
}

TEST(Text, of_a_peer_cannot_control_the_terminal) {
    EXPECT_EQ(printable("a\x1b[31mred\nb\x7f"), "a?[31mred?b?");
    EXPECT_EQ(printable("\xc2\x9b"
                        "31m"),
              "?31m")
        << "C1 control sequence introducer";
    EXPECT_EQ(printable("x\xe2\x80\xaeverse"), "x?verse") << "right-to-left override";
    EXPECT_EQ(printable(std::string_view("ab\0cd", 5)), "ab");
}

TEST(Text, that_is_well_formed_utf8_is_unchanged) {
    EXPECT_EQ(printable("Größe 記憶 😀"), "Größe 記憶 😀");
}

TEST(Text, that_is_malformed_is_marked_byte_by_byte) {
    EXPECT_EQ(printable("\xc0\xaf"), "??") << "overlong";
    EXPECT_EQ(printable("\xe0\x80\x80"), "???") << "overlong";
    EXPECT_EQ(printable("\xed\xa0\x80"), "???") << "surrogate";
    EXPECT_EQ(printable("\xf4\x90\x80\x80"), "????") << "above U+10FFFF";
    EXPECT_EQ(printable("a\xe8\xa8"), "a??") << "truncated";
    EXPECT_EQ(printable("\xffz"), "?z");
}

TEST(Text, is_truncated_between_characters) {
    EXPECT_EQ(printable("aé", 2), "a");
    EXPECT_EQ(printable("aé", 3), "aé");
    EXPECT_EQ(printable("abc", 0), "");
}

}  // namespace
}  // namespace wss::wire
