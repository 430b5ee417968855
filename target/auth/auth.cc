// SPDX-License-Identifier: Apache-2.0
#include "target/auth/auth.h"

#include <algorithm>

namespace wss::auth {

using Prover = wire::AuthTranscript::Prover;

SecretBook::SecretBook(std::string target_name, std::vector<NamedSecret> secrets)
    : target_name_(std::move(target_name)), secrets_(std::move(secrets)) {
    std::array<std::byte, kSecretMin> chance;
    fill_unpredictable(chance);
    nobody_ = Secret({reinterpret_cast<const char*>(chance.data()), chance.size()});
}

const Secret& SecretBook::find(std::string_view name, bool& known) const {
    auto found = std::find_if(secrets_.begin(), secrets_.end(),
                              [&](const NamedSecret& each) { return each.name == name; });
    known = found != secrets_.end();
    return known ? found->secret : nobody_;
}

bool SecretBook::still_grants(std::string_view name, const SecretBook& other) const {
    bool known = false, known_there = false;
    const auto mine = std::as_bytes(std::span(find(name, known).bytes()));
    const auto theirs = std::as_bytes(std::span(other.find(name, known_there).bytes()));
    return known && known_there && mine.size() == theirs.size() && equal_in_constant_time(mine, theirs);
}

Authenticator::Authenticator(std::shared_ptr<const SecretBook> secrets, wire::Bytes login_request,
                             wire::Bytes login_response)
    : secrets_(std::move(secrets)) {
    bool whole = transcript_.logins(login_request, login_response);
    WSS_ASSERT(whole, "a login that was parsed has its length");
}

Authenticator::Verdict Authenticator::take(wire::Bytes message, wire::MutableBytes answer, size_t& length) {
    switch (step_) {
        case Step::kStart:
            return take_start(message, answer, length);
        case Step::kProof:
            return take_proof(message);
        case Step::kOver:
            break;
    }
    return Verdict::kViolation;
}

Authenticator::Verdict Authenticator::take_start(wire::Bytes message, wire::MutableBytes answer,
                                                 size_t& length) {
    if (wire::parse_auth_start(message, start_) != wire::ParseError::kNone) return Verdict::kViolation;
    wire::AuthChallenge challenge{.name = secrets_->target_name()};
    fill_unpredictable(challenge.nonce);
    length = wire::encode_auth_challenge(challenge, answer);
    if (!transcript_.start(message) || !transcript_.challenge(answer.first(length)))
        return Verdict::kViolation;
    step_ = Step::kProof;
    return Verdict::kChallenge;
}

Authenticator::Verdict Authenticator::take_proof(wire::Bytes message) {
    step_ = Step::kOver;
    Digest proof;
    if (wire::parse_auth_proof(message, proof) != wire::ParseError::kNone) return Verdict::kViolation;
    const Secret& secret = secrets_->find(start_.name, known_);
    const bool equal = equal_in_constant_time(proof, transcript_.proof(secret, Prover::kInitiator));
    return equal && known_ ? Verdict::kProven : Verdict::kRefused;
}

size_t Authenticator::result(std::string_view why, wire::MutableBytes answer) const {
    wire::AuthResult result{.granted = why.empty(), .text = std::string(why)};
    bool known = false;
    if (result.granted) result.proof = transcript_.proof(secrets_->find(start_.name, known), Prover::kTarget);
    return wire::encode_auth_result(result, answer);
}

std::string Authenticator::refusal() const {
    return fmt::format("the target knows no initiator '{}' with this secret", start_.name);
}

}  // namespace wss::auth
