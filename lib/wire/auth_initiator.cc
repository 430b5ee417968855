// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/auth_initiator.h"

#include "lib/base/assert.h"

namespace wss::wire {

using Prover = AuthTranscript::Prover;

size_t AuthInitiator::start(Bytes login_request, Bytes login_response, Bytes binding, MutableBytes out) {
    AuthStart start{.nonce = {}, .name = own_.name};
    fill_unpredictable(start.nonce);
    const size_t length = encode_auth_start(start, out);
    const bool whole =
        transcript_.logins(login_request, login_response) && transcript_.start(out.first(length));
    WSS_ASSERT(whole, "parsed logins have a fixed length");
    transcript_.binding(binding);
    return length;
}

static Status other_name(const std::string& found, const std::string& expected) {
    return failure(Code::kPermission,
                   "the target there is '{}', but '{}' is expected: check the address. If the new target "
                   "replaces '{}', start it with that --name. Otherwise restart this program; if its options "
                   "name the target, give the new name",
                   found, expected, expected);
}

static Status unproven(const std::string& target, const std::string& own) {
    return failure(
        Code::kPermission,
        "the target '{}' could not prove that it knows the secret of '{}': the secrets differ (compare "
        "--secret-file with the target's --secrets or --cache-secrets), it is another target of that "
        "name, or a relay forwards the login",
        target, own);
}

Result<size_t> AuthInitiator::take_challenge(Bytes message, MutableBytes out) {
    AuthChallenge challenge;
    if (proven_ || parse_auth_challenge(message, challenge) != ParseError::kNone ||
        challenge.version != WSS_AUTH_VERSION || !transcript_.challenge(message))
        return Status(Code::kInvalid, "a malformed challenge, or a second one");
    if (!expected_target_.empty() && challenge.name != expected_target_)
        return other_name(challenge.name, expected_target_);
    const Secret key = auth_key(own_.secret, challenge.name);
    const Digest theirs = transcript_.proof(key, Prover::kTarget);
    for (const Digest& each : challenge.proofs) proven_ = equal_in_constant_time(each, theirs) || proven_;
    if (!proven_) return unproven(challenge.name, own_.name);
    target_name_ = challenge.name;
    return encode_auth_proof(transcript_.proof(key, Prover::kInitiator), out);
}

Status AuthInitiator::take_result(Bytes message) {
    AuthResult result;
    if (granted_ || parse_auth_result(message, result) != ParseError::kNone)
        return Status(Code::kInvalid, "a malformed authentication result, or a second one");
    if (!result.granted) return Status(Code::kRefused, result.text);
    if (!proven_) return Status(Code::kInvalid, "a login granted without a proof");
    granted_ = true;
    return Status::ok();
}

}  // namespace wss::wire
