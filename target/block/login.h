// SPDX-License-Identifier: Apache-2.0
// Login negotiation: from the terms that a peer requests to the terms that it gets, or to the reason for a
// refusal.
//
// Pure: the same bytes and limits give the same result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/fabric/fabric.h"
#include "lib/wire/srp.h"
#include "target/block/limits.h"

namespace wss::block {

struct LoginLimits {
    uint32_t credits = kCreditsDefault;
    uint32_t keepalive_ms = kKeepaliveDefault_ms;
    uint32_t caps = WSS_CAP_ALL;  // what may be granted
    bool authenticate = false;    // an initiator that does not authenticate is refused
    uint32_t sessions_per_name = kSessionsPerName;
    uint32_t sessions_per_source = kSessionsPerSource;
};

// The negotiated terms of a channel. Immutable once granted.
struct ChannelTerms {
    uint32_t credits = 0;
    uint32_t max_it_iu = 0;
    uint16_t imm_data_offset = 0;  // 0: no immediate data
    uint32_t caps = 0;             // enum wss_cap
    uint32_t keepalive_ms = 0;     // 0: never
    bool extended = false;         // a WSS peer

    bool fused() const { return caps & WSS_CAP_FUSED_COMPLETION; }
    bool batched() const { return caps & WSS_CAP_BATCHED_COMPLETION; }
    bool remote_invalidate() const { return caps & WSS_CAP_REMOTE_INVALIDATE; }
    bool cache() const { return caps & WSS_CAP_CACHE; }
    bool notify() const { return caps & WSS_CAP_NOTIFY; }
    bool authenticate() const { return caps & WSS_CAP_AUTHENTICATE; }
};

// The size of one receive slot: the IU, and immediate data on pages of its own.
size_t slot_bytes(const ChannelTerms& terms) noexcept;
// The number of receive slots of a channel.
uint32_t receive_slots(const ChannelTerms& terms) noexcept;

struct Refusal {
    uint32_t reason = WSS_SRP_REJ_UNABLE_TO_ESTABLISH;
    std::string text;  // shown on the user's terminal
};

// Returns nullopt if the login is granted, and sets `terms`.
std::optional<Refusal> negotiate(wire::ParseError parsed, const wire::LoginRequest& request,
                                 const LoginLimits& limits, const fabric::Caps& caps, ChannelTerms& terms);

// "0x0123…": 32 digits.
std::string to_string(const wire::PortId& id);

}  // namespace wss::block
