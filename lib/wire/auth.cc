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
static_assert(kSecretsPerName == WSS_AUTH_SECRETS, "a challenge has a proof for each secret of a name");
// Version 1 covers only the channel binding of TLS. Those of other fabrics were added later.
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

std::array<std::byte, WSS_AUTH_LABEL_BYTES> padded_label(std::string_view text) {
    std::array<std::byte, WSS_AUTH_LABEL_BYTES> label{};
    std::memcpy(label.data(), text.data(), text.size());
    return label;
}

// The name in a field of a message. It must be valid, and all bytes after it zero.
template <size_t N>
bool take_name(const char (&field)[N], std::string& name) {
    name.assign(field, strnlen(field, N));
    const bool padded = std::all_of(field + name.size(), field + N, [](char c) { return c == 0; });
    return padded && is_peer_name(name);
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
    if (raw.version != WSS_AUTH_VERSION && raw.version != WSS_AUTH_VERSION_1) return ParseError::kReserved;
    out.version = raw.version;
    std::memcpy(out.nonce.data(), raw.nonce, sizeof raw.nonce);
    return take_name(raw.name, out.name) ? ParseError::kNone : ParseError::kFormat;
}

size_t encode_auth_start(const AuthStart& start, MutableBytes out) {
    wss_srp_auth_start raw{};
    raw.opcode = WSS_SRP_AUTH_START;
    raw.version = start.version;
    std::memcpy(raw.nonce, start.nonce.data(), sizeof raw.nonce);
    put_text(start.name, raw.name);
    return store(raw, out);
}

ParseError parse_auth_challenge(Bytes message, AuthChallenge& out) {
    wss_srp_auth_challenge raw{};
    if (message.size() < WSS_AUTH_CHALLENGE_COVERED) return ParseError::kTooShort;
    std::memcpy(&raw, message.data(), std::min(message.size(), sizeof raw));
    if (raw.opcode != WSS_SRP_AUTH_CHALLENGE) return ParseError::kOpcode;
    if (raw.version != WSS_AUTH_VERSION && raw.version != 0) return ParseError::kReserved;
    if (raw.version == WSS_AUTH_VERSION && message.size() < sizeof raw) return ParseError::kTooShort;
    out.version = raw.version;
    std::memcpy(out.nonce.data(), raw.nonce, sizeof raw.nonce);
    out.proofs = {};
    if (raw.version == WSS_AUTH_VERSION) std::memcpy(out.proofs.data(), raw.proofs, sizeof raw.proofs);
    return take_name(raw.name, out.name) ? ParseError::kNone : ParseError::kFormat;
}

size_t encode_auth_challenge(const AuthChallenge& challenge, MutableBytes out) {
    wss_srp_auth_challenge raw{};
    raw.opcode = WSS_SRP_AUTH_CHALLENGE;
    raw.version = challenge.version;
    std::memcpy(raw.nonce, challenge.nonce.data(), sizeof raw.nonce);
    put_text(challenge.name, raw.name);
    std::memcpy(raw.proofs, challenge.proofs.data(), sizeof raw.proofs);
    const size_t length = challenge.version == 0 ? WSS_AUTH_CHALLENGE_COVERED : sizeof raw;
    if (out.size() < length) return 0;
    std::memcpy(out.data(), &raw, length);
    return length;
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

bool AuthTranscript::is_version_1() const {
    return start_[offsetof(wss_srp_auth_start, version)] == std::byte{WSS_AUTH_VERSION_1};
}

static std::string_view label_of(AuthTranscript::Prover prover, bool version_1) {
    const bool initiator = prover == AuthTranscript::Prover::kInitiator;
    if (version_1) return initiator ? WSS_AUTH_LABEL_INITIATOR_1 : WSS_AUTH_LABEL_TARGET_1;
    return initiator ? WSS_AUTH_LABEL_INITIATOR : WSS_AUTH_LABEL_TARGET;
}

Digest AuthTranscript::proof(const Secret& key, Prover prover) const {
    const auto label = padded_label(label_of(prover, is_version_1()));
    const bool is_bound = !is_version_1() || binding_.size() == kExporterBytes;
    const Bytes parts[] = {label,  login_request_, login_response_,
                           start_, challenge_,     is_bound ? Bytes(binding_) : Bytes()};
    return hmac_sha256(key.bytes(), parts);
}

Secret auth_key(const Secret& secret, std::string_view target_name) {
    const auto label = padded_label(WSS_AUTH_LABEL_KEY);
    char name[WSS_AUTH_NAME_BYTES] = {};
    put_text(target_name, name);
    const Bytes parts[] = {label, std::as_bytes(std::span(name))};
    Digest key = hmac_sha256(secret.bytes(), parts);
    return take_secret(key);
}

}  // namespace wss::wire
