// SPDX-License-Identifier: Apache-2.0
#include "target/auth/auth.h"

#include <set>

namespace wss::auth {

using Prover = wire::AuthTranscript::Prover;

SecretBook::SecretBook(std::string target_name, std::vector<NamedSecret> secrets)
    : target_name_(std::move(target_name)), secrets_(std::move(secrets)) {
    std::array<std::byte, kSecretMin> chance;
    fill_unpredictable(chance);
    nobody_ = Secret({reinterpret_cast<const char*>(chance.data()), chance.size()});
}

SecretBook::Found SecretBook::find(std::string_view name) const {
    Found found;
    found.secrets.fill(&nobody_);
    size_t count = 0;
    for (const NamedSecret& each : secrets_)
        if (each.name == name && count < found.secrets.size()) found.secrets[count++] = &each.secret;
    found.known = count > 0;
    return found;
}

unsigned SecretBook::place_of(std::string_view name, const Secret& secret) const {
    const Found found = find(name);
    const auto wanted = std::as_bytes(std::span(secret.bytes()));
    unsigned place = 0;
    for (unsigned i = 0; i < found.secrets.size(); ++i) {
        const auto ours = std::as_bytes(std::span(found.secrets[i]->bytes()));
        if (ours.size() == wanted.size() && equal_in_constant_time(ours, wanted)) place = i + 1;
    }
    return place;
}

size_t SecretBook::names() const {
    std::set<std::string_view> names;
    for (const NamedSecret& each : secrets_) names.insert(each.name);
    return names.size();
}

Authenticator::Authenticator(std::shared_ptr<const SecretBook> secrets, wire::Bytes login_request,
                             wire::Bytes login_response)
    : secrets_(std::move(secrets)) {
    bool whole = transcript_.logins(login_request, login_response);
    WSS_ASSERT(whole, "a parsed login is complete");
}

Authenticator::Progress Authenticator::take(wire::Bytes message, wire::MutableBytes answer, size_t& length) {
    switch (step_) {
        case Step::kStart:
            return take_start(message, answer, length);
        case Step::kProof:
            return take_proof(message);
        case Step::kOver:
            break;
    }
    return Progress::kViolation;
}

Authenticator::Progress Authenticator::take_start(wire::Bytes message, wire::MutableBytes answer,
                                                  size_t& length) {
    if (wire::parse_auth_start(message, start_) != wire::ParseError::kNone) return Progress::kViolation;
    wire::AuthChallenge challenge{.name = secrets_->target_name()};
    fill_unpredictable(challenge.nonce);
    length = wire::encode_auth_challenge(challenge, answer);
    if (!transcript_.start(message) || !transcript_.challenge(answer.first(length)))
        return Progress::kViolation;
    step_ = Step::kProof;
    return Progress::kChallenge;
}

Authenticator::Progress Authenticator::take_proof(wire::Bytes message) {
    step_ = Step::kOver;
    Digest proof;
    if (wire::parse_auth_proof(message, proof) != wire::ParseError::kNone) return Progress::kViolation;
    const SecretBook::Found found = secrets_->find(start_.name);
    known_ = found.known;
    for (const Secret* secret : found.secrets)
        if (equal_in_constant_time(proof, transcript_.proof(*secret, Prover::kInitiator))) proven_ = secret;
    return known_ && proven_ != nullptr ? Progress::kProven : Progress::kRefused;
}

size_t Authenticator::result(std::string_view why, wire::MutableBytes answer) const {
    wire::AuthResult result{.granted = why.empty(), .text = std::string(why)};
    if (result.granted) result.proof = transcript_.proof(*proven_, Prover::kTarget);
    return wire::encode_auth_result(result, answer);
}

std::string Authenticator::refusal() const {
    return fmt::format("the target has no initiator '{}' with this secret", start_.name);
}

}  // namespace wss::auth
