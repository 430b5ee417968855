// SPDX-License-Identifier: Apache-2.0
// Authentication against a peer that uses only the wire codecs, and that is honest, lies, replays or changes
// messages.
#include <algorithm>
#include <set>

#include "tests/unit/target/prover.h"

namespace wss::block::testing {
namespace {

class Authentication : public ::testing::Test {
  protected:
    void SetUp() override { world.add_volume("v0", "ram:4M", 4 << 20); }
    // The target still serves an honest initiator after each test.
    void TearDown() override {
        Prove honest(world, 99);
        EXPECT_TRUE(honest.run("alice", kAlice).granted);
        EXPECT_EQ(world.read(*honest.client, 0, 0, 8, 0, 4096).response.status, wire::kGood);
    }
    // Clears Alice's failures, so that a test of refusals does not become one of suspensions.
    void forgive() { world.service().sessions().auth_failures().proven("127.0.0.1", "alice"); }
    World world{guarded()};
};

TEST_F(Authentication, proves_to_each_end_that_the_other_knows_the_secret) {
    Prove alice(world, 1);
    auto result = alice.run("alice", kAlice);
    ASSERT_TRUE(result.granted) << result.text;
    EXPECT_TRUE(alice.is_target_proven(kAlice));
    EXPECT_FALSE(alice.is_target_proven(kBob));
    EXPECT_NE(alice.proof(kAlice, Prove::Prover::kTarget), alice.proof(kAlice))
        << "one side's proof is not the other's";
    EXPECT_EQ(result.proof, Digest{}) << "the target has proven itself before";
    EXPECT_EQ(alice.challenge().name, "vault");
    auto sessions = world.service().sessions().list();
    ASSERT_EQ(sessions.size(), 1u);
    EXPECT_EQ(sessions[0].name, "alice");
    EXPECT_TRUE(sessions[0].authenticated);
}

TEST_F(Authentication, refuses_a_wrong_secret_with_a_reason_and_ends_the_connection) {
    Prove liar(world, 1);
    auto result = liar.run("alice", kBob);
    EXPECT_FALSE(result.granted);
    EXPECT_EQ(result.text, "the target has no initiator 'alice' with this secret");
    EXPECT_TRUE(liar.ends());
    EXPECT_EQ(world.service().sessions().count(), 0u);
    EXPECT_EQ(world.totals().refused_logins, 1u);
}

TEST_F(Authentication, refuses_an_unknown_name_with_the_same_text_as_a_wrong_secret) {
    Prove liar(world, 1);
    auto result = liar.run("nobody", kBob);
    EXPECT_FALSE(result.granted);
    EXPECT_EQ(result.text, "the target has no initiator 'nobody' with this secret");
}

TEST_F(Authentication, refuses_at_login_an_initiator_that_does_not_authenticate) {
    RawClient client(world);
    client.connect(World::login(1, WSS_CAP_ALL));
    ASSERT_TRUE(world.until([&] { return client.refused(); }));
    EXPECT_EQ(client.reject().text(), "this target requires authentication (wssctl map --secret-file)");
    RawClient stock(world);
    stock.connect(World::login(2, 0));
    ASSERT_TRUE(world.until([&] { return stock.refused(); }));
}

TEST_F(Authentication, refuses_a_replayed_exchange) {
    Prove alice(world, 1);
    alice.start("alice");
    const Digest overheard = alice.proof(kAlice);
    alice.send(overheard);
    ASSERT_TRUE(alice.result().granted);
    Prove thief(world, 1);
    thief.login = alice.login;
    thief.start("alice");  // the nonce and name of the recorded login
    EXPECT_EQ(thief.start_, alice.start_);
    EXPECT_NE(thief.challenge_, alice.challenge_) << "the target draws a fresh nonce";
    thief.send(overheard);
    EXPECT_FALSE(thief.result().granted);
    EXPECT_FALSE(alice.client->closed()) << "a replay does not end the session of the victim";
    EXPECT_EQ(world.read(*alice.client, 0, 0, 1, 0, 512).response.status, wire::kGood);
}

TEST_F(Authentication, refuses_a_reflected_proof_of_the_target) {
    Prove mirror(world, 1);
    mirror.start("alice");
    mirror.send(mirror.proof(kAlice, Prove::Prover::kTarget));
    EXPECT_FALSE(mirror.result().granted);
}

// One bit changes in transit. The honest initiator proves the messages that it has seen.
TEST_F(Authentication, fails_if_a_bit_was_changed_in_transit) {
    struct Tampering {
        const char* what;
        std::function<void(Prove&)> change;
    };
    const Tampering all[] = {
        {"initiator port", [](Prove& p) { p.login.initiator_port[3] ^= 1; }},
        {"target port", [](Prove& p) { p.login.target_port[15] ^= 1; }},
        {"requested extensions", [](Prove& p) { p.login.caps ^= WSS_CAP_KEEPALIVE; }},
        {"nonce of the initiator", [](Prove& p) { p.start_[9] ^= byte{1}; }},
        {"name", [](Prove& p) { p.start_[40] ^= byte{1}; }},
        {"nonce of the target", [](Prove& p) { p.challenge_[8] ^= byte{1}; }},
        {"name of the target", [](Prove& p) { p.challenge_[40] ^= byte{1}; }},
        {"version of the challenge", [](Prove& p) { p.challenge_[1] ^= byte{1}; }},
        {"key of another target", [](Prove& p) { p.target_name = "vau1t"; }},
    };
    for (const Tampering& each : all) {
        Prove victim(world, 1);
        victim.start("alice");
        each.change(victim);
        victim.send(victim.proof(kAlice));
        EXPECT_FALSE(victim.result().granted) << each.what;
        EXPECT_TRUE(victim.ends()) << each.what;
        forgive();
    }
    for (size_t bit = 0; bit < 256; bit += 37) {
        Prove victim(world, 1);
        victim.start("alice");
        Digest proof = victim.proof(kAlice);
        proof[bit / 8] ^= byte(1 << bit % 8);
        victim.send(proof);
        EXPECT_FALSE(victim.result().granted) << "bit " << bit;
        forgive();
    }
}

TEST_F(Authentication, ends_a_connection_with_a_command_before_the_proof_and_does_not_execute_it) {
    Prove eager(world, 1);
    std::vector<byte> data(512, byte{1});
    eager.client->start_immediate(0, cdb_write16(0, 1), data);
    EXPECT_TRUE(eager.ends());
    Prove between(world, 2);
    between.start("alice");
    between.client->start(0, cdb_read16(0, 1), wire::CommandRequest::Direction::kIn,
                          {between.client->remote(0, 512)});
    EXPECT_TRUE(between.ends());
    EXPECT_EQ(world.totals().commands, 0u);
    EXPECT_EQ(world.totals().writes, 0u);
}

TEST_F(Authentication, ends_the_connection_after_an_invalid_message) {
    // A START without a version, ones that are too short, and other messages.
    const std::pair<int, size_t> kMessages[] = {{WSS_SRP_AUTH_START, 103},
                                                {WSS_SRP_AUTH_START, 104},
                                                {WSS_SRP_AUTH_PROOF, 40},
                                                {0xff, 16},
                                                {WSS_SRP_I_LOGOUT, 16}};
    for (auto [opcode, bytes] : kMessages) {
        Prove rude(world, 1);
        rude.raw({opcode}, bytes);
        EXPECT_TRUE(rude.ends()) << opcode << " of " << bytes;
    }
    Prove twice(world, 1);
    twice.start("alice");
    twice.client->send(twice.start_);
    EXPECT_TRUE(twice.ends());
}

TEST_F(Authentication, lets_further_channels_join_only_a_session_of_their_own_initiator) {
    Prove first(world, 1);
    ASSERT_TRUE(first.run("alice", kAlice).granted);
    Prove second(world, 1, true);
    ASSERT_TRUE(second.run("alice", kAlice).granted);
    EXPECT_EQ(world.service().sessions().count(), 1u);
    EXPECT_EQ(world.service().sessions().list()[0].peers.size(), 2u);
    Prove intruder(world, 1, true);
    auto result = intruder.run("bob", kBob);
    EXPECT_FALSE(result.granted) << "no initiator joins the session of another";
    EXPECT_EQ(result.text, "the session to join belongs to another initiator, or has been replaced");
}

TEST_F(Authentication, lets_only_a_login_of_its_own_initiator_end_a_session) {
    Prove alice(world, 1);
    ASSERT_TRUE(alice.run("alice", kAlice).granted);
    Prove bob(world, 1);  // alice's port id
    auto result = bob.run("bob", kBob);
    EXPECT_FALSE(result.granted);
    EXPECT_EQ(result.text, "another initiator is logged in with this port id");
    EXPECT_FALSE(alice.client->closed());
    Prove again(world, 1);
    EXPECT_TRUE(again.run("alice", kAlice).granted);
    EXPECT_TRUE(alice.ends()) << "fenced";
    EXPECT_GT(again.client->login().session_epoch, alice.client->login().session_epoch);
}

TEST_F(Authentication, evicts_the_oldest_of_too_many_pending_connections_and_leaves_the_others_their_time) {
    std::vector<std::unique_ptr<Prove>> idle;
    for (uint32_t i = 0; i < kPendingHere; ++i) idle.push_back(std::make_unique<Prove>(world, uint8_t(i)));
    EXPECT_TRUE(Prove(world, 77).run("alice", kAlice).granted)
        << "unauthenticated peers lock out no initiator";
    EXPECT_TRUE(idle[0]->ends());
    EXPECT_FALSE(idle[1]->client->closed());
    EXPECT_TRUE(idle[1]->run("bob", kBob).granted) << "a kept place remains valid";
    EXPECT_TRUE(world.until([&] { return idle.back()->client->closed(); })) << "silence ends in time";
}

TEST_F(Authentication, succeeds_while_unauthenticated_peers_connect_faster_than_they_expire) {
    std::vector<std::unique_ptr<Prove>> idle;
    for (uint32_t i = 0; i < 5 * kPendingHere; ++i) {
        idle.push_back(std::make_unique<Prove>(world, uint8_t(i)));
        if (i % 8 != 0) continue;
        ASSERT_TRUE(Prove(world, 200).run("alice", kAlice).granted) << i << " unauthenticated peers so far";
    }
    EXPECT_TRUE(world.until([&] {
        return std::count_if(idle.begin(), idle.end(), [](const auto& each) {
                   return each->client->established() && !each->client->closed();
               }) <= kPendingHere;
    }));
}

TEST_F(Authentication, lets_every_credit_be_used_right_after_the_proof) {
    Prove alice(world, 1);
    ASSERT_TRUE(alice.run("alice", kAlice).granted);
    std::vector<uint64_t> tags;
    for (uint32_t i = 0; i < alice.client->login().credits; ++i)
        tags.push_back(alice.client->start(0, cdb_read16(i, 1), wire::CommandRequest::Direction::kIn,
                                           {alice.client->remote(0, 512)}));
    EXPECT_TRUE(world.until([&] {
        return std::all_of(tags.begin(), tags.end(),
                           [&](uint64_t tag) { return alice.client->answered(tag); });
    }));
}

static std::shared_ptr<const auth::SecretBook> book(std::vector<NamedSecret> secrets) {
    return std::make_shared<const auth::SecretBook>("vault", std::move(secrets));
}

TEST_F(Authentication, ends_the_sessions_whose_secret_a_reload_has_removed_or_changed) {
    Prove alice(world, 1), bob(world, 2), unproven(world, 3);
    ASSERT_TRUE(alice.run("alice", kAlice).granted);
    ASSERT_TRUE(bob.run("bob", kBob).granted);
    unproven.start("bob");
    size_t ended = 99;
    world.service().set_secrets(book({{"alice", kAlice}}), [&](size_t count) { ended = count; });
    EXPECT_TRUE(bob.ends());
    EXPECT_EQ(ended, 1u);
    unproven.send(unproven.proof(kBob));
    EXPECT_EQ(unproven.result().text, "this initiator's secret was withdrawn");
    Prove bob_again(world, 2);
    EXPECT_FALSE(bob_again.run("bob", kBob).granted);
    EXPECT_FALSE(alice.client->closed());
    world.service().set_secrets(book({{"alice", kBob}}), [&](size_t count) { ended = count; });
    EXPECT_TRUE(alice.ends()) << "another secret under the same name";
    world.service().set_secrets(book({{"alice", kAlice}}), [&](size_t count) { ended = count; });
    EXPECT_TRUE(world.until([&] { return ended == 0; }));
}

TEST_F(Authentication, keeps_sessions_when_a_secret_is_replaced_while_the_old_one_is_valid_too) {
    Prove before(world, 1);
    ASSERT_TRUE(before.run("alice", kAlice).granted);
    const Secret next("the next of alice");
    size_t ended = 99;
    world.service().set_secrets(book({{"alice", kAlice}, {"bob", kBob}, {"alice", next}}),
                                [&](size_t count) { ended = count; });
    ASSERT_TRUE(world.until([&] { return ended == 0; }));
    Prove after(world, 2);
    const wire::AuthResult granted = after.run("alice", next);
    ASSERT_TRUE(granted.granted) << granted.text;
    EXPECT_TRUE(after.is_target_proven(next) && after.is_target_proven(kAlice))
        << "the target does not know which of the secrets the initiator has";
    EXPECT_TRUE(Prove(world, 3).run("alice", kAlice).granted);
    EXPECT_FALSE(Prove(world, 4).run("alice", kBob).granted);
    auto sessions = world.service().sessions().list();
    ASSERT_GE(sessions.size(), 2u);
    EXPECT_EQ(sessions[0].secrets, std::vector<unsigned>{1});
    EXPECT_EQ(sessions[1].secrets, std::vector<unsigned>{2});
    ended = 0;
    world.service().set_secrets(book({{"alice", next}}), [&](size_t count) { ended = count; });
    EXPECT_TRUE(before.ends());
    EXPECT_FALSE(after.client->closed());
    // TearDown() logs in with the old secret.
    world.service().set_secrets(book({{"alice", next}, {"alice", kAlice}}), [](size_t) {});
}

TEST_F(Authentication, lets_an_initiator_log_in_again_after_its_session_was_ended_by_name) {
    Prove alice(world, 1), bob(world, 2);
    ASSERT_TRUE(alice.run("alice", kAlice).granted);
    ASSERT_TRUE(bob.run("bob", kBob).granted);
    size_t ended = 99;
    world.service().end_session("mallory", [&](size_t count) { ended = count; });
    ASSERT_TRUE(world.until([&] { return ended == 0; }));
    world.service().end_session("alice", [&](size_t count) { ended = count; });
    EXPECT_TRUE(alice.ends());
    EXPECT_EQ(ended, 1u);
    ASSERT_FALSE(alice.client->others.empty());
    wire::TargetLogout logout;
    EXPECT_EQ(wire::parse_target_logout(alice.client->others.back(), logout), wire::ParseError::kNone);
    EXPECT_EQ(logout.reason, uint32_t{WSS_SRP_LOGOUT_ENDED});
    EXPECT_FALSE(bob.client->closed());
    EXPECT_TRUE(Prove(world, 1).run("alice", kAlice).granted);
}

TEST_F(Authentication, makes_only_an_initiator_that_fails_too_often_wait_even_with_the_right_secret) {
    for (uint32_t i = 0; i <= kAuthFailuresFree; ++i)
        EXPECT_FALSE(Prove(world, 1).run("bob", kAlice).granted);
    auto result = Prove(world, 1).run("bob", kBob);
    EXPECT_FALSE(result.granted);
    EXPECT_NE(result.text.find("try again in"), std::string::npos) << result.text;
    EXPECT_TRUE(Prove(world, 2).run("alice", kAlice).granted) << "another name";
    bool granted = false;
    ASSERT_TRUE(world.until([&] {
        if (!granted) granted = Prove(world, 1).run("bob", kBob).granted;
        return granted;
    })) << "the suspension ends";
}

TEST_F(Authentication, that_is_pending_ends_when_the_target_stops) {
    World other{guarded()};
    Prove pending(other, 1);
    other.stop();
    EXPECT_TRUE(pending.ends());
}

// Initiators that sleep from the moment at which they are refused after a valid proof.
class RefusedInitiator : public ::testing::Test {
  protected:
    static WorldOptions options() {
        WorldOptions options = guarded();
        options.service.drain_timeout = from_ms(300);
        return options;
    }
    void SetUp() override {
        world.add_volume("v0", "ram:4M", 4 << 20);
        ASSERT_TRUE(alice.run("alice", kAlice).granted);
        bob.start("bob");
        bob.send(bob.proof(kBob));  // this login has alice's port id
        world.client_poller().poll();
        world.clients_sleep = true;
        ASSERT_TRUE(world.until([&] { return drains(); }));
    }
    void TearDown() override { world.clients_sleep = false; }
    bool drains() {
        bool any = false;
        world.service().worker(0).lane(0).for_each_channel(
            [&](Channel& channel) { any = any || channel.record().draining_since_ns != 0; });
        return any;
    }
    World world{options()};
    Prove alice{world, 1}, bob{world, 1};
};

TEST_F(RefusedInitiator, that_ignores_the_refusal_is_disconnected_in_time) {
    Lane& lane = world.service().worker(0).lane(0);
    ASSERT_EQ(lane.channels(), 2u);
    EXPECT_TRUE(world.until([&] { return lane.channels() == 1; }));
    EXPECT_EQ(world.service().sessions().count(), 1u) << "alice is served";
}

TEST_F(RefusedInitiator, that_ignores_the_refusal_does_not_delay_a_stop) {
    world.stop();
    EXPECT_EQ(world.service().worker(0).lane(0).channels(), 0u);
}

TEST_F(Authentication, counts_all_sessions_of_a_name_as_one_initiator) {
    Prove first(world, 1), second(world, 2), bob(world, 3);
    ASSERT_TRUE(first.run("alice", kAlice).granted && second.run("alice", kAlice).granted);
    ASSERT_TRUE(bob.run("bob", kBob).granted);
    std::map<std::string, std::set<const InitiatorShare*>> shares;
    world.service().worker(0).lane(0).for_each_channel(
        [&](Channel& channel) { shares[channel.record().name].insert(channel.share().get()); });
    EXPECT_EQ(shares["alice"].size(), 1u) << "two sessions have one share";
    EXPECT_EQ(shares["bob"].size(), 1u);
    EXPECT_FALSE(shares["alice"].contains(*shares["bob"].begin()));
}

}  // namespace
}  // namespace wss::block::testing
