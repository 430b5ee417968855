// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/auth.h"

#include <algorithm>
#include <cstring>

#include "lib/base/secrets.h"
#include "lib/wire/srp_bytes.h"
#include "lib/wire/text.h"

namespace wss::wire {

using detail::load;
using detail::store;

static_assert(kInitiatorNameMax + 1 == WSS_AUTH_NAME_BYTES, "a name and its zero fill the field");
static_assert(kSecretMin == WSS_AUTH_SECRET_MIN && kSecretMax == WSS_AUTH_SECRET_MAX,
              "both ends accept the same secrets");
// Proofs of this version cover the binding of TLS only, which is older than that of other fabrics.
constexpr size_t kExporterBytes = 32;

namespace {

template <size_t N>
std::string printable(const char (&field)[N]) {
    std::array<char, N> text;
    return {text.data(), copy_printable({field, N}, text)};
}

template <size_t N>
void put_text(std::string_view text, char (&field)[N]) {
    std::copy_n(text.data(), std::min(text.size(), N), field);
}

template <size_t N>
bool take(Bytes from, std::array<std::byte, N>& to) {
    if (from.size() < N) return false;
    std::copy_n(from.begin(), N, to.begin());
    return true;
}

}  // namespace

ParseError parse_auth_start(Bytes message, AuthStart& out) {
    wss_srp_auth_start raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_AUTH_START) return ParseError::kOpcode;
    if (raw.version != WSS_AUTH_VERSION) return ParseError::kReserved;
    std::memcpy(out.nonce.data(), raw.nonce, sizeof raw.nonce);
    out.name.assign(raw.name, strnlen(raw.name, sizeof raw.name));
    return check_initiator_name(out.name).is_ok() ? ParseError::kNone : ParseError::kFormat;
}

size_t encode_auth_start(const AuthStart& start, MutableBytes out) {
    wss_srp_auth_start raw{};
    raw.opcode = WSS_SRP_AUTH_START;
    raw.version = WSS_AUTH_VERSION;
    std::memcpy(raw.nonce, start.nonce.data(), sizeof raw.nonce);
    put_text(start.name, raw.name);
    return store(raw, out);
}

ParseError parse_auth_challenge(Bytes message, AuthChallenge& out) {
    wss_srp_auth_challenge raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_AUTH_CHALLENGE) return ParseError::kOpcode;
    std::memcpy(out.nonce.data(), raw.nonce, sizeof raw.nonce);
    out.name = printable(raw.name);
    return ParseError::kNone;
}

size_t encode_auth_challenge(const AuthChallenge& challenge, MutableBytes out) {
    wss_srp_auth_challenge raw{};
    raw.opcode = WSS_SRP_AUTH_CHALLENGE;
    std::memcpy(raw.nonce, challenge.nonce.data(), sizeof raw.nonce);
    put_text(challenge.name, raw.name);
    return store(raw, out);
}

ParseError parse_auth_proof(Bytes message, Digest& out) {
    wss_srp_auth_proof raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_AUTH_PROOF) return ParseError::kOpcode;
    std::memcpy(out.data(), raw.proof, sizeof raw.proof);
    return ParseError::kNone;
}

size_t encode_auth_proof(const Digest& proof, MutableBytes out) {
    wss_srp_auth_proof raw{};
    raw.opcode = WSS_SRP_AUTH_PROOF;
    std::memcpy(raw.proof, proof.data(), sizeof raw.proof);
    return store(raw, out);
}

ParseError parse_auth_result(Bytes message, AuthResult& out) {
    wss_srp_auth_result raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_AUTH_RESULT) return ParseError::kOpcode;
    out.granted = raw.status == WSS_AUTH_GRANTED;
    std::memcpy(out.proof.data(), raw.proof, sizeof raw.proof);
    out.text = printable(raw.text);
    return ParseError::kNone;
}

size_t encode_auth_result(const AuthResult& result, MutableBytes out) {
    wss_srp_auth_result raw{};
    raw.opcode = WSS_SRP_AUTH_RESULT;
    raw.status = result.granted ? WSS_AUTH_GRANTED : WSS_AUTH_REFUSED;
    if (result.granted) std::memcpy(raw.proof, result.proof.data(), sizeof raw.proof);
    std::array<char, sizeof raw.text> text;
    put_text({text.data(), copy_printable(result.text, text)}, raw.text);
    return store(raw, out);
}

bool AuthTranscript::logins(Bytes request, Bytes response) {
    return take(request, login_request_) && take(response, login_response_);
}

bool AuthTranscript::start(Bytes message) {
    return take(message, start_);
}

bool AuthTranscript::challenge(Bytes message) {
    return take(message, challenge_);
}

Digest AuthTranscript::proof(const Secret& secret, Prover prover) const {
    std::array<std::byte, WSS_AUTH_LABEL_BYTES> label{};
    std::string_view text = prover == Prover::kInitiator ? WSS_AUTH_LABEL_INITIATOR : WSS_AUTH_LABEL_TARGET;
    std::memcpy(label.data(), text.data(), text.size());
    const Bytes binding = binding_.size() == kExporterBytes ? Bytes(binding_) : Bytes();
    const Bytes parts[] = {label, login_request_, login_response_, start_, challenge_, binding};
    return hmac_sha256(secret.bytes(), parts);
}

}  // namespace wss::wire
