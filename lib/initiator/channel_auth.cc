// SPDX-License-Identifier: Apache-2.0
// Channel: mutual authentication with the target (lib/wire/auth.h describes the exchange).
#include "lib/initiator/channel.h"

namespace wss::initiator {

std::byte* Channel::auth_memory(uint32_t index) const noexcept {
    return slot_memory(static_cast<uint32_t>(commands_.size())) + size_t{kShortSlots} * kShortBytes +
           size_t{index} * kAuthBytes;
}

void Channel::begin_proving(std::span<const std::byte> login_response) {
    state_ = State::kProving;
    auth_ = std::make_unique<wire::AuthInitiator>(options_.identity, std::string(owner_.target_name()));
    const size_t length = auth_->start(login_request_, login_response, connection_->channel_binding(),
                                       {auth_memory(0), kAuthBytes});
    queue_send(auth_memory(0), length, static_cast<uint32_t>(commands_.size()) + kShortSlots);
    flush();
}

void Channel::auth_message(wire::Bytes bytes) noexcept {
    switch (wire::opcode_of(bytes)) {
        case WSS_SRP_AUTH_CHALLENGE:
            return take_challenge(bytes);
        case WSS_SRP_AUTH_RESULT:
            return take_result(bytes);
        case WSS_SRP_T_LOGOUT:
            return logged_out_unproven(bytes);
        default:
            return violation("another message during authentication");
    }
}

// A target that does not support version 2 of the authentication refuses START as a violation of the
// protocol.
void Channel::logged_out_unproven(wire::Bytes bytes) noexcept {
    wire::TargetLogout logout;
    const bool refused = wire::parse_target_logout(bytes, logout) == wire::ParseError::kNone &&
                         logout.reason == WSS_SRP_LOGOUT_NOT_AUTHENTICATED;
    if (refused && !auth_->is_target_proven())
        return close(failure(Code::kPermission,
                             "{}: the target does not accept version {} of the authentication: it is older "
                             "than this client; update it",
                             options_.address.to_string(), WSS_AUTH_VERSION));
    close(Status(Code::kUnavailable, "the target closed the session before authentication completed"));
}

void Channel::take_challenge(wire::Bytes bytes) {
    const auto length = auth_->take_challenge(bytes, {auth_memory(1), kAuthBytes});
    if (!length) return auth_failed(length.status());
    queue_send(auth_memory(1), *length, static_cast<uint32_t>(commands_.size()) + kShortSlots + 1);
    flush();
}

void Channel::take_result(wire::Bytes bytes) {
    const Status granted = auth_->take_result(bytes);
    if (granted.code() == Code::kRefused)
        return close(failure(Code::kRefused, "{}: the target refused the login: {}",
                             options_.address.to_string(), granted.text()));
    if (!granted) return auth_failed(granted);
    set_up();
    auth_.reset();  // it has a copy of the secret
}

void Channel::auth_failed(const Status& why) {
    close(failure(why.code(), "{}: {}", options_.address.to_string(), why.text()));
}

}  // namespace wss::initiator
