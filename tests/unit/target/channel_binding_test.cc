// SPDX-License-Identifier: Apache-2.0
// A relay forwards the messages of a login between two connections of its own. If these have channel
// bindings, the proofs of both ends are invalid.
#include <gtest/gtest.h>

#include "target/auth/auth.h"

namespace wss::auth {
namespace {

using Progress = Authenticator::Progress;

const Secret kAlice("the secret of alice");

std::vector<std::byte> binding(char letter, size_t bytes = 32) {
    return std::vector<std::byte>(bytes, std::byte(letter));
}

// Both ends' checks of each other's proofs, with the binding of each side's connection.
struct Login {
    Login(wire::Bytes of_initiator, wire::Bytes of_target, uint8_t version = WSS_AUTH_VERSION)
        : authenticator(book, request, response) {
        authenticator.bind(of_target);
        transcript.binding(of_initiator);
        std::array<std::byte, 256> start, message, proof;
        const size_t start_length =
            wire::encode_auth_start({.nonce = {}, .name = "alice", .version = version}, start);
        size_t length = 0;
        EXPECT_EQ(authenticator.take({start.data(), start_length}, message, length), Progress::kChallenge);
        EXPECT_TRUE(transcript.logins(request, response) && transcript.start({start.data(), start_length}) &&
                    transcript.challenge({message.data(), length}));
        wire::AuthChallenge challenge;
        EXPECT_EQ(wire::parse_auth_challenge({message.data(), length}, challenge), wire::ParseError::kNone);
        const Secret key = version == 1 ? kAlice : wire::auth_key(kAlice, challenge.name);
        target_proves = challenge.proofs[0] == transcript.proof(key, Prover::kTarget);
        const Digest ours = transcript.proof(key, Prover::kInitiator);
        const size_t proof_length = wire::encode_auth_proof(ours, proof);
        progress = authenticator.take({proof.data(), proof_length}, message, length);
    }

    using Prover = wire::AuthTranscript::Prover;
    const std::array<std::byte, 64> request{}, response{};
    const std::shared_ptr<const SecretBook> book = std::make_shared<const SecretBook>(
        "vault", std::vector<NamedSecret>{{"alice", kAlice}}, std::vector<std::string>{"alice"});
    Authenticator authenticator;
    wire::AuthTranscript transcript;
    bool target_proves = false;
    Progress progress = Progress::kViolation;
};

TEST(ChannelBinding, of_one_connection_permits_a_login_that_both_ends_prove) {
    Login login(binding('a'), binding('a'));
    EXPECT_EQ(login.progress, Progress::kProven);
    EXPECT_TRUE(login.target_proves);
}

TEST(ChannelBinding, may_be_absent_from_a_login_that_both_ends_prove) {
    Login login({}, {});
    EXPECT_EQ(login.progress, Progress::kProven);
    EXPECT_TRUE(login.target_proves);
}

TEST(ChannelBinding, refuses_a_proof_relayed_to_another_connection) {
    const Login login(binding('a'), binding('b'));
    EXPECT_FALSE(login.target_proves) << "the initiator stops here";
    EXPECT_EQ(login.progress, Progress::kRefused);
}

TEST(ChannelBinding, refuses_a_proof_relayed_from_or_to_a_connection_without_binding) {
    EXPECT_EQ(Login(binding('a'), {}).progress, Progress::kRefused);
    EXPECT_EQ(Login({}, binding('b')).progress, Progress::kRefused);
}

// A peer of version 1 covers the binding of TLS, and knows no other.
TEST(ChannelBinding, of_another_length_than_that_of_tls_is_not_covered_by_version_1) {
    EXPECT_EQ(Login(binding('a'), binding('b'), 1).progress, Progress::kRefused);
    EXPECT_EQ(Login(binding('a', 40), binding('b', 40), 1).progress, Progress::kProven);
    EXPECT_EQ(Login(binding('a', 40), binding('b', 40)).progress, Progress::kRefused);
}

}  // namespace
}  // namespace wss::auth
