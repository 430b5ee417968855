// SPDX-License-Identifier: Apache-2.0
// A relay forwards the four messages of a login between two connections of its own. If these have channel
// bindings, the proofs are invalid.
#include <gtest/gtest.h>

#include "target/auth/auth.h"

namespace wss::auth {
namespace {

using Progress = Authenticator::Progress;

const Secret kAlice("the secret of alice");

std::vector<std::byte> binding(char letter) {
    return std::vector<std::byte>(32, std::byte(letter));
}

// The target's result for the proof of an honest initiator, with the binding of each side's connection.
struct Login {
    Login(wire::Bytes of_initiator, wire::Bytes of_target) : authenticator(book, request, response) {
        authenticator.bind(of_target);
        transcript.binding(of_initiator);
        std::array<std::byte, 256> start, challenge, proof;
        const size_t start_length = wire::encode_auth_start({.nonce = {}, .name = "alice"}, start);
        size_t length = 0;
        EXPECT_EQ(authenticator.take({start.data(), start_length}, challenge, length), Progress::kChallenge);
        EXPECT_TRUE(transcript.logins(request, response) && transcript.start({start.data(), start_length}) &&
                    transcript.challenge({challenge.data(), length}));
        const Digest ours = transcript.proof(kAlice, wire::AuthTranscript::Prover::kInitiator);
        const size_t proof_length = wire::encode_auth_proof(ours, proof);
        progress = authenticator.take({proof.data(), proof_length}, challenge, length);
    }
    // Returns whether the initiator accepts the target's proof.
    bool target_proves() {
        std::array<std::byte, 256> message;
        wire::AuthResult result;
        const size_t length = authenticator.result({}, message);
        EXPECT_EQ(wire::parse_auth_result({message.data(), length}, result), wire::ParseError::kNone);
        return result.proof == transcript.proof(kAlice, wire::AuthTranscript::Prover::kTarget);
    }

    const std::array<std::byte, 64> request{}, response{};
    const std::shared_ptr<const SecretBook> book =
        std::make_shared<const SecretBook>("vault", std::vector<NamedSecret>{{"alice", kAlice}});
    Authenticator authenticator;
    wire::AuthTranscript transcript;
    Progress progress = Progress::kViolation;
};

TEST(ChannelBinding, a_login_on_one_connection_is_proven_by_both) {
    Login login(binding('a'), binding('a'));
    EXPECT_EQ(login.progress, Progress::kProven);
    EXPECT_TRUE(login.target_proves());
}

TEST(ChannelBinding, a_login_without_bindings_is_proven_by_both) {
    Login login({}, {});
    EXPECT_EQ(login.progress, Progress::kProven);
    EXPECT_TRUE(login.target_proves());
}

TEST(ChannelBinding, a_proof_relayed_to_another_connection_is_refused) {
    EXPECT_EQ(Login(binding('a'), binding('b')).progress, Progress::kRefused);
}

TEST(ChannelBinding, a_proof_relayed_from_or_to_a_connection_without_binding_is_refused) {
    EXPECT_EQ(Login(binding('a'), {}).progress, Progress::kRefused);
    EXPECT_EQ(Login({}, binding('b')).progress, Progress::kRefused);
}

}  // namespace
}  // namespace wss::auth
