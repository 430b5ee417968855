// SPDX-License-Identifier: Apache-2.0
#include "target/auth/auth.h"

#include <algorithm>
#include <set>

namespace wss::auth {

using Prover = wire::AuthTranscript::Prover;

SecretBook::SecretBook(std::string target_name, std::vector<NamedSecret> secrets,
                       std::vector<std::string> version_1)
    : target_name_(std::move(target_name)), secrets_(std::move(secrets)), version_1_(std::move(version_1)) {
    keys_.reserve(secrets_.size());
    for (const NamedSecret& each : secrets_) keys_.push_back(wire::auth_key(each.secret, target_name_));
    for (Secret& one : nobody_) {
        Digest chance;
        fill_unpredictable(chance);
        one = take_secret(chance);
    }
}

SecretBook::Found SecretBook::find(std::string_view name) const {
    Found found;
    for (size_t i = 0; i < nobody_.size(); ++i) found.entries[i] = {&nobody_[i], &nobody_[i]};
    size_t count = 0;
    for (size_t i = 0; i < secrets_.size(); ++i)
        if (secrets_[i].name == name && count < found.entries.size())
            found.entries[count++] = {&secrets_[i].secret, &keys_[i]};
    found.known = count > 0;
    return found;
}

bool SecretBook::allows_version_1(std::string_view name) const {
    return std::find(version_1_.begin(), version_1_.end(), name) != version_1_.end();
}

unsigned SecretBook::place_of(std::string_view name, const Secret& secret) const {
    const Found found = find(name);
    const auto wanted = std::as_bytes(std::span(secret.bytes()));
    unsigned place = 0;
    for (unsigned i = 0; i < found.entries.size(); ++i) {
        const auto ours = std::as_bytes(std::span(found.entries[i].secret->bytes()));
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
    wire::AuthChallenge challenge{.name = secrets_->target_name(),
                                  .version = is_version_1() ? uint8_t{0} : start_.version};
    fill_unpredictable(challenge.nonce);
    length = wire::encode_auth_challenge(challenge, answer);
    if (!transcript_.start(message) || !transcript_.challenge(answer.first(length)))
        return Progress::kViolation;
    step_ = Step::kProof;
    const SecretBook::Found found = secrets_->find(start_.name);
    known_ = found.known;
    if (is_version_1()) return Progress::kChallenge;
    for (size_t i = 0; i < found.entries.size(); ++i)
        challenge.proofs[i] = transcript_.proof(*found.entries[i].key, Prover::kTarget);
    length = wire::encode_auth_challenge(challenge, answer);
    return Progress::kChallenge;
}

Authenticator::Progress Authenticator::take_proof(wire::Bytes message) {
    step_ = Step::kOver;
    Digest proof;
    if (wire::parse_auth_proof(message, proof) != wire::ParseError::kNone) return Progress::kViolation;
    const SecretBook::Found found = secrets_->find(start_.name);
    for (const SecretBook::Entry& entry : found.entries) {
        const Secret& key = is_version_1() ? *entry.secret : *entry.key;
        if (equal_in_constant_time(proof, transcript_.proof(key, Prover::kInitiator))) proven_ = entry.secret;
    }
    if (!known_ || proven_ == nullptr) return Progress::kRefused;
    // This follows the check of the proof, because the answer would otherwise show which names are allowed.
    outdated_ = is_version_1() && !secrets_->allows_version_1(start_.name);
    return outdated_ ? Progress::kOutdated : Progress::kProven;
}

size_t Authenticator::result(std::string_view why, wire::MutableBytes answer) const {
    wire::AuthResult result{.granted = why.empty(), .text = std::string(why)};
    if (result.granted && is_version_1()) result.proof = transcript_.proof(*proven_, Prover::kTarget);
    return wire::encode_auth_result(result, answer);
}

std::string Authenticator::refusal(std::string_view role) const {
    if (outdated_)
        return fmt::format("this {} uses version 1 of the authentication: update it, or see --auth-v1", role);
    return fmt::format("the target has no {} '{}' with this secret", role, start_.name);
}

std::string_view Authenticator::finding() const {
    if (outdated_) return "version 1 of the authentication, which --auth-v1 does not allow for this name";
    return known_ ? "wrong secret" : "unknown initiator";
}

std::string_view Authenticator::suspicion() const {
    return known_ ? "it has another secret, expects another target, or is behind a relay"
                  : "unknown initiator";
}

}  // namespace wss::auth
