// SPDX-License-Identifier: Apache-2.0
// Channel: mutual authentication with the target (lib/wire/auth.h describes the exchange).
#include "lib/initiator/channel.h"

namespace wss::initiator {

using Prover = wire::AuthTranscript::Prover;

std::byte* Channel::auth_memory(uint32_t index) const noexcept {
    return slot_memory(static_cast<uint32_t>(commands_.size())) + size_t{kShortSlots} * kShortBytes +
           size_t{index} * kAuthBytes;
}

void Channel::begin_proving(std::span<const std::byte> login_response) {
    state_ = State::kProving;
    transcript_.binding(connection_->channel_binding());
    wire::AuthStart start{.name = options_.identity.name};
    fill_unpredictable(start.nonce);
    wire::MutableBytes out{auth_memory(0), kAuthBytes};
    size_t length = wire::encode_auth_start(start, out);
    bool whole = transcript_.logins(login_request_, login_response) && transcript_.start(out.first(length));
    WSS_ASSERT(whole, "parsed logins have a fixed length");
    queue_send(out.data(), length, static_cast<uint32_t>(commands_.size()) + kShortSlots);
    flush();
}

void Channel::auth_message(wire::Bytes bytes) noexcept {
    switch (wire::opcode_of(bytes)) {
        case WSS_SRP_AUTH_CHALLENGE:
            return take_challenge(bytes);
        case WSS_SRP_AUTH_RESULT:
            return take_result(bytes);
        case WSS_SRP_T_LOGOUT:
            return close(
                Status(Code::kUnavailable, "the target closed the session before authentication completed"));
        default:
            return violation("another message during authentication");
    }
}

void Channel::take_challenge(wire::Bytes bytes) {
    wire::AuthChallenge challenge;
    if (challenged_ || wire::parse_auth_challenge(bytes, challenge) != wire::ParseError::kNone ||
        !transcript_.challenge(bytes))
        return violation("a malformed challenge, or a second one");
    challenged_ = true;
    wire::MutableBytes out{auth_memory(1), kAuthBytes};
    size_t length =
        wire::encode_auth_proof(transcript_.proof(options_.identity.secret, Prover::kInitiator), out);
    queue_send(out.data(), length, static_cast<uint32_t>(commands_.size()) + kShortSlots + 1);
    flush();
}

void Channel::take_result(wire::Bytes bytes) {
    wire::AuthResult result;
    if (wire::parse_auth_result(bytes, result) != wire::ParseError::kNone)
        return violation("a malformed authentication result");
    if (!result.granted)
        return close(failure(Code::kRefused, "{}: the target refused the login: {}",
                             options_.address.to_string(), result.text));
    // A grant without a challenge violates the exchange: this side has not sent its proof yet.
    const bool proven =
        challenged_ &&
        equal_in_constant_time(result.proof, transcript_.proof(options_.identity.secret, Prover::kTarget));
    if (!proven)
        return close(failure(Code::kPermission,
                             "{}: the target could not prove that it knows the secret of '{}': it is another "
                             "target, or messages are modified in transit",
                             options_.address.to_string(), options_.identity.name));
    set_up();
}

}  // namespace wss::initiator
