// SPDX-License-Identifier: Apache-2.0
// A target that requires secrets, and an initiator that has one.
#pragma once

#include <algorithm>

#include "lib/wire/auth.h"
#include "tests/unit/target/world.h"

namespace wss::block::testing {

inline constexpr uint32_t kCaps = WSS_CAP_AUTHENTICATE | WSS_CAP_NOTIFY;
inline const Secret kAlice("the secret of alice");
inline const Secret kBob("the secret of bob 12");

// The names in `version_1` may use version 1 of the authentication.
// Few, because target and initiators share the descriptors of one process.
constexpr uint32_t kPendingHere = 32;

inline WorldOptions guarded(std::vector<std::string> version_1 = {}) {
    WorldOptions options;
    options.service.secrets = std::make_shared<const auth::SecretBook>(
        "vault", std::vector<NamedSecret>{{"alice", kAlice}, {"bob", kBob}}, std::move(version_1));
    options.service.pending_auth_max = kPendingHere;
    return options;
}

// The initiator's side of the login. It uses only the wire codecs, and shares no code with the initiator
// library.
class Prove {
  public:
    using Prover = wire::AuthTranscript::Prover;
    Prove(ClientSide& world, uint8_t port, bool multi = false)
        : world_(world), client(std::make_unique<RawClient>(world)) {
        login = World::login(port, kCaps, multi);
        client->connect(login);
        EXPECT_TRUE(world.until([&] { return client->established() || client->refused(); }));
    }
    void start(const std::string& name, byte nonce = byte{7}) {
        wire::AuthStart words{.name = name, .version = version};
        words.nonce.fill(nonce);
        start_.resize(sizeof(wss_srp_auth_start));
        ASSERT_EQ(wire::encode_auth_start(words, start_), start_.size());
        client->send(start_);
        ASSERT_TRUE(world_.until([&] { return client->others.size() == 1 || client->closed(); }));
        if (!client->others.empty()) challenge_ = client->others[0];
    }
    Digest proof(const Secret& secret, Prover prover = Prover::kInitiator) {
        std::array<byte, 56> request;
        wire::encode_login_request(login, request);
        wire::AuthTranscript transcript;
        EXPECT_TRUE(transcript.logins(request, response()));
        EXPECT_TRUE(transcript.start(start_));
        EXPECT_TRUE(transcript.challenge(challenge_));
        return transcript.proof(version == 1 ? secret : wire::auth_key(secret, target_name), prover);
    }
    wire::AuthChallenge challenge() const {
        wire::AuthChallenge words;
        EXPECT_EQ(wire::parse_auth_challenge(challenge_, words), wire::ParseError::kNone);
        return words;
    }
    // Whether the target has proven, in the challenge, that it knows the secret.
    bool is_target_proven(const Secret& secret) {
        const auto proofs = challenge().proofs;
        return std::find(proofs.begin(), proofs.end(), proof(secret, Prover::kTarget)) != proofs.end();
    }
    void send(const Digest& proof) {
        std::array<byte, sizeof(wss_srp_auth_proof)> message;
        wire::encode_auth_proof(proof, message);
        client->send(message);
    }
    wire::AuthResult result() {
        EXPECT_TRUE(world_.until([&] { return client->others.size() >= 2 || client->closed(); }));
        wire::AuthResult words;
        if (client->others.size() < 2) return words;
        EXPECT_EQ(wire::parse_auth_result(client->others[1], words), wire::ParseError::kNone);
        return words;
    }
    wire::AuthResult run(const std::string& name, const Secret& secret) {
        start(name);
        send(proof(secret));
        return result();
    }
    bool ends() {
        return world_.until([&] { return client->closed(); });
    }
    void raw(std::initializer_list<int> head, size_t bytes) {
        std::vector<byte> message(bytes);
        size_t at = 0;
        for (int each : head) message[at++] = byte(each);
        client->send(message);
    }

    wire::LoginRequest login;
    uint8_t version = WSS_AUTH_VERSION;
    std::string target_name = "vault";  // the key is derived from this name
    std::vector<byte> start_, challenge_;

  private:
    // Returns the target's response as it was on the wire. The client has every field of it.
    std::vector<byte> response() {
        std::vector<byte> bytes(52);
        EXPECT_EQ(wire::encode_login_response(client->login(), bytes), 52u);
        return bytes;
    }
    ClientSide& world_;

  public:
    std::unique_ptr<RawClient> client;
};

}  // namespace wss::block::testing
