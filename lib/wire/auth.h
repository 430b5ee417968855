// SPDX-License-Identifier: Apache-2.0
// Authentication of a channel: its messages, and the proofs that both ends compute over them.
//
//   initiator                                 target
//     START {nonce, name} ─────────────────►    looks up the secrets of `name`
//           ◄───────────── CHALLENGE {nonce, name, an HMAC over the above for each secret}
//     compares
//     PROOF {HMAC over the same data} ─────►    compares
//           ◄──────────────── RESULT {granted, or the reason for a refusal}
//
// Each proof also covers the login request and response as they were on the wire: a change of a port, an
// extension or the epoch in transit makes the proofs fail. Different labels keep the proof of one side from
// being used as that of the other. Fresh nonces from both sides make old proofs useless. Over a fabric with a
// channel binding the proofs also cover the binding, so they fail when a third party forwards the messages
// over a connection of its own. The key of the proofs is derived from the secret and the name of the target.
//
// In version 1 the initiator sends its proof first, and the target sends its own proof in RESULT. Only
// targets still support that version, and only for the initiators that the operator lists.
//
// Thread-safety: values.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/hmac.h"
#include "lib/wire/srp.h"

namespace wss::wire {

using Nonce = std::array<std::byte, WSS_AUTH_NONCE_BYTES>;

struct AuthStart {
    Nonce nonce{};
    std::string name;
    uint8_t version = WSS_AUTH_VERSION;
};
// Returns kFormat for an invalid name and kReserved for an unknown version.
ParseError parse_auth_start(Bytes message, AuthStart& out);
size_t encode_auth_start(const AuthStart& start, MutableBytes out);

// If `version` is 0, this is a challenge of version 1, which has no proofs.
struct AuthChallenge {
    Nonce nonce{};
    std::string name;  // the target's name
    uint8_t version = WSS_AUTH_VERSION;
    std::array<Digest, WSS_AUTH_SECRETS> proofs{};
};
// Returns kFormat for an invalid name and kReserved for an unknown version.
ParseError parse_auth_challenge(Bytes message, AuthChallenge& out);
size_t encode_auth_challenge(const AuthChallenge& challenge, MutableBytes out);

ParseError parse_auth_proof(Bytes message, Digest& out);
size_t encode_auth_proof(const Digest& proof, MutableBytes out);

struct AuthResult {
    bool granted = false;
    Digest proof{};    // version 1: the target's proof, if it granted access
    std::string text;  // reason for a refusal; printable
};
ParseError parse_auth_result(Bytes message, AuthResult& out);
size_t encode_auth_result(const AuthResult& result, MutableBytes out);

// Returns the key of the proofs for the target with this name.
Secret auth_key(const Secret& secret, std::string_view target_name);

// The data that both proofs cover. The caller passes each part once.
class AuthTranscript {
  public:
    // The private data may be longer, but only its fixed length is used. Returns false if a part is too
    // short.
    bool logins(Bytes request, Bytes response);
    bool start(Bytes message);
    // Takes the challenge without its proofs.
    bool challenge(Bytes message);
    // The channel binding of the connection. It is empty if the fabric has none.
    void binding(Bytes value) { binding_.assign(value.begin(), value.end()); }

    enum class Prover : uint8_t { kInitiator, kTarget };
    // `key` is the result of auth_key(), or in version 1 the secret itself.
    Digest proof(const Secret& key, Prover prover) const;

  private:
    bool is_version_1() const;
    std::array<std::byte, sizeof(wss_srp_login_req)> login_request_{};
    std::array<std::byte, sizeof(wss_srp_login_rsp)> login_response_{};
    std::array<std::byte, sizeof(wss_srp_auth_start)> start_{};
    std::array<std::byte, WSS_AUTH_CHALLENGE_COVERED> challenge_{};
    std::vector<std::byte> binding_;
};

}  // namespace wss::wire
