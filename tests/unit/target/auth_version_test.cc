// SPDX-License-Identifier: Apache-2.0
// The target's proof, which comes before that of the initiator, and initiators of version 1.
#include "tests/unit/target/prover.h"

namespace wss::block::testing {
namespace {

using Prover = wire::AuthTranscript::Prover;

struct TargetProof : public ::testing::Test {
    World world{guarded({"alice"})};
    // Logs in with version 1, which the target allows only for alice.
    wire::AuthResult old_login(uint8_t port, const std::string& name, const Secret& secret) {
        Prove initiator(world, port);
        initiator.version = 1;
        const wire::AuthResult result = initiator.run(name, secret);
        is_target_proven = result.proof == initiator.proof(secret, Prover::kTarget);
        return result;
    }
    bool is_target_proven = false;
};

TEST_F(TargetProof, is_in_the_challenge_for_an_unknown_name_as_in_one_for_a_known_name) {
    Prove known(world, 1), unknown(world, 2);
    known.start("alice");
    unknown.start("nobody");
    EXPECT_EQ(known.challenge_.size(), unknown.challenge_.size());
    for (const wire::AuthChallenge& words : {known.challenge(), unknown.challenge()}) {
        EXPECT_NE(words.proofs[0], Digest{});
        EXPECT_NE(words.proofs[1], Digest{});
        EXPECT_NE(words.proofs[0], words.proofs[1]) << "equal ones would show that no secret was used";
    }
    EXPECT_FALSE(unknown.is_target_proven(kAlice));
}

TEST_F(TargetProof, is_of_the_key_derived_for_the_name_of_the_target) {
    Prove alice(world, 1);
    alice.start("alice");
    EXPECT_TRUE(alice.is_target_proven(kAlice));
    alice.target_name = "vault2";
    EXPECT_FALSE(alice.is_target_proven(kAlice));
}

TEST_F(TargetProof, in_a_challenge_after_which_the_initiator_leaves_counts_as_a_refused_login) {
    Prove alice(world, 1);
    alice.start("alice");
    alice.client->close();
    EXPECT_TRUE(world.until([&] { return world.totals().refused_logins == 1; }));
    EXPECT_TRUE(alice.ends());
}

TEST_F(TargetProof, lets_version_1_log_in_under_an_allowed_name_only) {
    const wire::AuthResult alice = old_login(1, "alice", kAlice);
    EXPECT_TRUE(alice.granted) << alice.text;
    EXPECT_TRUE(is_target_proven);
    const wire::AuthResult bob = old_login(2, "bob", kBob);
    EXPECT_FALSE(bob.granted);
    EXPECT_EQ(bob.text, "this initiator uses version 1 of the authentication: update it, or see --auth-v1");
    EXPECT_EQ(bob.proof, Digest{});
    EXPECT_TRUE(world.until([&] { return world.totals().refused_logins == 1; }));
    EXPECT_TRUE(Prove(world, 3).run("bob", kBob).granted) << "of version 2";
}

TEST_F(TargetProof, does_not_show_version_1_with_a_wrong_secret_which_names_are_allowed) {
    EXPECT_EQ(old_login(1, "alice", kBob).text, "the target has no initiator 'alice' with this secret");
    EXPECT_EQ(old_login(2, "bob", kAlice).text, "the target has no initiator 'bob' with this secret");
}

TEST_F(TargetProof, does_not_suspend_a_name_for_correct_proofs_of_a_refused_version) {
    for (uint32_t i = 0; i < kAuthFailuresFree + 3; ++i) EXPECT_FALSE(old_login(1, "bob", kBob).granted);
    EXPECT_TRUE(Prove(world, 1).run("bob", kBob).granted);
}

TEST_F(TargetProof, is_absent_from_the_challenge_of_version_1) {
    Prove old(world, 1);
    old.version = 1;
    old.start("alice");
    EXPECT_EQ(old.challenge_.size(), WSS_AUTH_CHALLENGE_COVERED);
    EXPECT_EQ(old.challenge().version, 0);
}

}  // namespace
}  // namespace wss::block::testing
