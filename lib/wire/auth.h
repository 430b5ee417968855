// SPDX-License-Identifier: Apache-2.0
// Authentication of a channel: its messages, and the proofs that both ends compute over them.
//
//   initiator                                 target
//     START {nonce, name} ─────────────────►    looks up the secret of `name`
//           ◄───────────── CHALLENGE {nonce, name}
//     PROOF {HMAC over the above} ─────────►    compares
//           ◄──────────────── RESULT {HMAC over the same data, or the reason for a refusal}
//
// Each proof also covers the login request and response as they were on the wire: a change of a port, an
// extension or the epoch in transit makes the proofs fail. Different labels keep the proof of one side from
// being used as that of the other. Fresh nonces from both sides make old proofs useless. Over a fabric with a
// channel binding the proofs also cover the binding, so they fail when a third party forwards the messages
// over a connection of its own.
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
};
// Returns kFormat for an invalid name and kReserved for another version.
ParseError parse_auth_start(Bytes message, AuthStart& out);
size_t encode_auth_start(const AuthStart& start, MutableBytes out);

struct AuthChallenge {
    Nonce nonce{};
    std::string name;  // of the target; printable
};
ParseError parse_auth_challenge(Bytes message, AuthChallenge& out);
size_t encode_auth_challenge(const AuthChallenge& challenge, MutableBytes out);

ParseError parse_auth_proof(Bytes message, Digest& out);
size_t encode_auth_proof(const Digest& proof, MutableBytes out);

struct AuthResult {
    bool granted = false;
    Digest proof{};    // of the target, when granted
    std::string text;  // reason for a refusal; printable
};
ParseError parse_auth_result(Bytes message, AuthResult& out);
size_t encode_auth_result(const AuthResult& result, MutableBytes out);

// The data that both proofs cover. The caller passes each part once.
class AuthTranscript {
  public:
    // The private data may be longer, but only its fixed length is used. Returns false if a part is too
    // short.
    bool logins(Bytes request, Bytes response);
    bool start(Bytes message);
    bool challenge(Bytes message);
    // The channel binding of the connection. It is empty if the fabric has none.
    void binding(Bytes value) { binding_.assign(value.begin(), value.end()); }

    enum class Prover : uint8_t { kInitiator, kTarget };
    Digest proof(const Secret& secret, Prover prover) const;

  private:
    std::array<std::byte, sizeof(wss_srp_login_req)> login_request_{};
    std::array<std::byte, sizeof(wss_srp_login_rsp)> login_response_{};
    std::array<std::byte, sizeof(wss_srp_auth_start)> start_{};
    std::array<std::byte, sizeof(wss_srp_auth_challenge)> challenge_{};
    std::vector<std::byte> binding_;
};

}  // namespace wss::wire
