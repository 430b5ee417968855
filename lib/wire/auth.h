// SPDX-License-Identifier: Apache-2.0
// Authentication of a channel: its messages, and the proofs that both ends compute over them.
//
//   initiator                                 target
//     START {nonce, name} ─────────────────►    looks up the secret of `name`
//           ◄───────────── CHALLENGE {nonce, name}
//     PROOF {HMAC over all so far} ────────►    compares
//           ◄──────────────── RESULT {HMAC over all so far, or why not}
//
// Each proof covers the login request and response too, as they were on the wire: whoever changes a port, an
// extension or the epoch on the way makes the proofs fail. The two labels keep one side's proof from being
// the other's; fresh nonces of both keep an old one from being of use. Over a fabric with a channel binding
// the proofs cover that too: whoever forwards the messages over a connection of its own makes them fail.
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
// A name that is not one is kFormat; another version is kReserved.
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
    std::string text;  // why not; printable
};
ParseError parse_auth_result(Bytes message, AuthResult& out);
size_t encode_auth_result(const AuthResult& result, MutableBytes out);

// What both proofs cover. Each part is taken once, in the order of the wire.
class AuthTranscript {
  public:
    // The private data may be longer than what counts of it. False: a part is too short.
    bool logins(Bytes request, Bytes response);
    bool start(Bytes message);
    bool challenge(Bytes message);
    // Of the connection; empty where the fabric has none.
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
