// SPDX-License-Identifier: Apache-2.0
// Proofs of the authentication against values that were computed independently, by Python's hmac, from the
// layout in Documentation/protocol.md.
#include "lib/wire/auth.h"

#include <gtest/gtest.h>

#include "tests/unit/wire/hex.h"

namespace wss::wire {
namespace {

using Prover = AuthTranscript::Prover;

const Secret kSecret("correct-horse-battery-staple");

std::vector<std::byte> counting(size_t bytes, uint8_t first) {
    std::vector<std::byte> made(bytes);
    for (size_t i = 0; i < bytes; ++i) made[i] = std::byte(first + i);
    return made;
}

// A login of alice at vault. Its messages have fixed nonces.
AuthTranscript transcript(uint8_t version, size_t binding_bytes) {
    std::array<std::byte, 256> message;
    AuthTranscript made;
    EXPECT_TRUE(made.logins(counting(56, 0), counting(52, 100)));
    AuthStart start{.name = "alice", .version = version};
    start.nonce.fill(std::byte{0x11});
    EXPECT_TRUE(made.start({message.data(), encode_auth_start(start, message)}));
    AuthChallenge challenge{.name = "vault", .version = version == 1 ? uint8_t{0} : version};
    challenge.nonce.fill(std::byte{0x22});
    challenge.proofs[0].fill(std::byte{0x44});
    EXPECT_TRUE(made.challenge({message.data(), encode_auth_challenge(challenge, message)}));
    made.binding(std::vector<std::byte>(binding_bytes, std::byte{0x33}));
    return made;
}

TEST(AuthProof, uses_a_key_derived_from_the_secret_and_the_name_of_the_target) {
    const Secret key = auth_key(kSecret, "vault");
    EXPECT_EQ(to_hex(std::as_bytes(std::span(key.bytes()))),
              spaced("8aa7ecbc27c8650abbe92b53eb8666a0097bf908f6d01b1eba57fb8d436701d0"));
    EXPECT_NE(key.bytes(), auth_key(kSecret, "vault2").bytes());
}

TEST(AuthProof, covers_the_logins_the_messages_and_the_binding) {
    const Secret key = auth_key(kSecret, "vault");
    const AuthTranscript bound = transcript(2, 40), unbound = transcript(2, 0);
    EXPECT_EQ(to_hex(bound.proof(key, Prover::kInitiator)),
              spaced("b5c760751a1b4c69c205f1b5a75dbf8849f9651bfd810769dc23666405133ec0"));
    EXPECT_EQ(to_hex(bound.proof(key, Prover::kTarget)),
              spaced("362d88026c47953d7232ce57fa2904d0d5ef803d15de2f5ed6c2fe395bd9f982"));
    EXPECT_EQ(to_hex(unbound.proof(key, Prover::kInitiator)),
              spaced("6da54bc2239e843355611d1ec7265aec3eb8b1a152307f2808d33534edaebedb"));
    EXPECT_EQ(to_hex(unbound.proof(key, Prover::kTarget)),
              spaced("fc4b54526dae3d1efb31d338f813fb6b7e56a3642bb969aaa57ed473c87e4ec4"));
}

TEST(AuthProof, of_version_1_covers_the_binding_of_tls_only) {
    const std::string unbound = spaced("30b397e9d5d3bad6773a55df057ccaac5b7105b32bf9f7f613cf79922bc2786c");
    EXPECT_EQ(to_hex(transcript(1, 0).proof(kSecret, Prover::kTarget)), unbound);
    EXPECT_EQ(to_hex(transcript(1, 40).proof(kSecret, Prover::kTarget)), unbound);
    EXPECT_EQ(to_hex(transcript(1, 32).proof(kSecret, Prover::kTarget)),
              spaced("bb7af64d58cc7d822de2cc4906467a85c9960a0a4743887cbc8b3bee8666cb3b"));
    EXPECT_EQ(to_hex(transcript(1, 0).proof(kSecret, Prover::kInitiator)),
              spaced("66384d3f50dfac88f361a57e269515317f4761f7a4133e212c0c0bd78071b97a"));
}

TEST(AuthMessages, end_a_challenge_with_a_proof_for_each_secret) {
    std::array<std::byte, 256> message{};
    AuthChallenge challenge{.name = "vault"};
    challenge.proofs[0].fill(std::byte{0x55});
    challenge.proofs[1].fill(std::byte{0x66});
    ASSERT_EQ(encode_auth_challenge(challenge, message), sizeof(wss_srp_auth_challenge));
    EXPECT_EQ(message[0], std::byte{0xf2});
    EXPECT_EQ(message[1], std::byte{2});
    EXPECT_EQ(message[104], std::byte{0x55});
    EXPECT_EQ(message[136], std::byte{0x66});
    EXPECT_EQ(message[167], std::byte{0x66});
    AuthChallenge parsed;
    EXPECT_EQ(parse_auth_challenge(Bytes(message).first(168), parsed), ParseError::kNone);
    EXPECT_EQ(parsed.name, "vault");
    EXPECT_EQ(parsed.proofs, challenge.proofs);
    EXPECT_EQ(parse_auth_challenge(Bytes(message).first(167), parsed), ParseError::kTooShort);
}

TEST(AuthMessages, with_names_that_are_invalid_or_followed_by_other_bytes_are_refused) {
    std::array<std::byte, 256> message{};
    AuthStart start;
    AuthChallenge challenge;
    for (const char* name : {"", "-vault", "va ult", "va\nult"}) {
        encode_auth_start({.nonce = {}, .name = name}, message);
        EXPECT_EQ(parse_auth_start(message, start), ParseError::kFormat) << name;
        encode_auth_challenge({.nonce = {}, .name = name}, message);
        EXPECT_EQ(parse_auth_challenge(message, challenge), ParseError::kFormat) << name;
    }
    encode_auth_challenge({.nonce = {}, .name = "vault"}, message);
    message[40 + 63] = std::byte{'x'};
    EXPECT_EQ(parse_auth_challenge(message, challenge), ParseError::kFormat);
}

TEST(AuthMessages, of_versions_other_than_1_and_2_are_refused) {
    std::array<std::byte, 256> message{};
    AuthStart start;
    AuthChallenge challenge;
    for (const uint8_t version : {0, 3, 255}) {
        encode_auth_start({.nonce = {}, .name = "alice", .version = version}, message);
        EXPECT_EQ(parse_auth_start(message, start), ParseError::kReserved) << int{version};
    }
    for (const uint8_t version : {1, 3, 255}) {
        encode_auth_challenge({.nonce = {}, .name = "vault", .version = version}, message);
        EXPECT_EQ(parse_auth_challenge(message, challenge), ParseError::kReserved) << int{version};
    }
}

}  // namespace
}  // namespace wss::wire
