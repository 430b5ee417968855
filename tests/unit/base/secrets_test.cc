// SPDX-License-Identifier: Apache-2.0
// HMAC against published vectors, and files of secrets.
#include "lib/base/secrets.h"

#include <gtest/gtest.h>

#include <fstream>

#include "lib/base/hmac.h"

namespace wss {
namespace {

std::string hex(const Digest& digest) {
    std::string text;
    for (std::byte each : digest) text += fmt::format("{:02x}", std::to_integer<int>(each));
    return text;
}

std::span<const std::byte> bytes(std::string_view text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// RFC 4231, test cases 1, 2 and 6.
TEST(Hmac, matches_the_published_vectors) {
    const std::span<const std::byte> there[] = {bytes("Hi "), bytes("There")};
    EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), there)),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    const std::span<const std::byte> what[] = {bytes("what do ya want "), bytes(""), bytes("for nothing?")};
    EXPECT_EQ(hex(hmac_sha256("Jefe", what)),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    const std::span<const std::byte> larger[] = {
        bytes("Test Using Larger Than Block-Size Key - Hash Key First")};
    EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'), larger)),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, digests_are_equal_only_if_all_bits_are_equal) {
    Digest a{}, b{};
    EXPECT_TRUE(equal_in_constant_time(a, b));
    b[31] ^= std::byte{0x80};
    EXPECT_FALSE(equal_in_constant_time(a, b));
    EXPECT_FALSE(equal_in_constant_time(a, std::span(b).first(31)));
}

TEST(Secrets, are_read_from_lines_with_their_names_and_comments_are_skipped) {
    auto parsed = parse_secrets("# who\n\nalice:0123456789abcdef\r\nbob:with:colons:in:it:ok\n", "f");
    ASSERT_TRUE(parsed.is_ok()) << parsed.status().to_string();
    ASSERT_EQ(parsed->size(), 2u);
    EXPECT_EQ((*parsed)[0].secret.bytes(), "0123456789abcdef");
    EXPECT_EQ((*parsed)[1].secret.bytes(), "with:colons:in:it:ok");
}

TEST(Secrets, are_never_quoted_in_the_errors_that_name_their_line) {
    for (const char* text :
         {"a:0123456789abcdef\na:0123456789abcdef\n", "x\n",
          "a:0123456789abcdef\na:fedcba9876543210\na:0123456789fedcba\n", "-a:0123456789abcdef\n",
          "a:hunter2\n", "a:0123456789 abcdef\n", ":0123456789abcdef\n"}) {
        auto parsed = parse_secrets(text, "file");
        ASSERT_FALSE(parsed.is_ok()) << text;
        EXPECT_NE(parsed.status().text().find("file:"), std::string::npos);
        EXPECT_EQ(parsed.status().text().find("hunter2"), std::string::npos);
        EXPECT_EQ(parsed.status().text().find("0123456789"), std::string::npos);
    }
    EXPECT_FALSE(parse_secrets("a:" + std::string(257, 'x'), "file").is_ok());
    EXPECT_FALSE(parse_secrets("# nothing\n", "file").is_ok());
}

TEST(Secrets, of_one_name_may_be_two_during_a_change) {
    auto parsed = parse_secrets("a:0123456789abcdef\nb:0123456789abcdef\na:fedcba9876543210\n", "f");
    ASSERT_TRUE(parsed.is_ok()) << parsed.status().to_string();
    EXPECT_EQ(parsed->size(), 3u);
}

TEST(Secrets, that_are_generated_are_valid_and_never_repeat) {
    const std::string one = make_secret_line("host1"), two = make_secret_line("host1");
    EXPECT_NE(one, two);
    auto parsed = parse_secrets(one, "f");
    ASSERT_TRUE(parsed.is_ok());
    EXPECT_EQ((*parsed)[0].name, "host1");
    EXPECT_GE((*parsed)[0].secret.bytes().size(), 43u);
}

}  // namespace
}  // namespace wss
