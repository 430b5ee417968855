// SPDX-License-Identifier: Apache-2.0
#include "target/block/login.h"

#include <algorithm>

#include "target/block/request.h"

namespace wss::block {

static uint32_t grantable(const LoginLimits& limits, const fabric::Caps& fabric) {
    uint32_t caps = limits.caps & (WSS_CAP_ALL | WSS_CAP_CACHE);
    if (!fabric.write_immediate) caps &= ~uint32_t{WSS_CAP_FUSED_COMPLETION};
    if (!fabric.send_invalidate) caps &= ~uint32_t{WSS_CAP_REMOTE_INVALIDATE};
    if (limits.authenticate) caps |= WSS_CAP_AUTHENTICATE;
    if (limits.keepalive_ms == 0) caps &= ~uint32_t{WSS_CAP_KEEPALIVE};
    return caps;
}

std::optional<Refusal> negotiate(wire::ParseError parsed, const wire::LoginRequest& request,
                                 const LoginLimits& limits, const fabric::Caps& caps, ChannelTerms& terms) {
    if (parsed != wire::ParseError::kNone)
        return Refusal{WSS_SRP_REJ_UNABLE_TO_ESTABLISH,
                       fmt::format("not an SRP login: {}", wire::to_string(parsed))};
    if (request.max_it_iu < kIuMin)
        return Refusal{
            WSS_SRP_REJ_UNABLE_TO_ESTABLISH,
            fmt::format("IU length {} is too small: the minimum is {}", request.max_it_iu, kIuMin)};
    if (request.max_it_iu > kIuMax || request.max_it_iu > caps.message_max)
        return Refusal{WSS_SRP_REJ_REQ_IT_IU_LENGTH_TOO_LARGE,
                       fmt::format("IU length {} is too large: the maximum is {}", request.max_it_iu,
                                   std::min(kIuMax, caps.message_max))};
    if ((request.buffer_formats & WSS_SRP_BUF_FORMAT_DIRECT) == 0)
        return Refusal{WSS_SRP_REJ_UNSUPPORTED_DESCRIPTOR_FMT, "direct data buffers are required"};
    if (limits.authenticate && (!request.extended || (request.caps & WSS_CAP_AUTHENTICATE) == 0))
        return Refusal{WSS_SRP_REJ_UNABLE_ASSOCIATE_CHANNEL,
                       "this target requires authentication (wssctl map --secret-file)"};
    if (limits.authenticate && request.max_it_iu < sizeof(wss_srp_auth_start))
        return Refusal{WSS_SRP_REJ_UNABLE_TO_ESTABLISH,
                       fmt::format("IU length {} is too small: authentication needs {}", request.max_it_iu,
                                   sizeof(wss_srp_auth_start))};
    bool immediate = request.immediate && request.imm_data_offset == WSS_SRP_IMM_DATA_OFFSET;
    terms = {.credits = std::clamp(limits.credits, kCreditsMin, kCreditsMax),
             .max_it_iu = request.max_it_iu,
             .imm_data_offset = immediate ? request.imm_data_offset : uint16_t{0},
             .caps = request.extended ? request.caps & grantable(limits, caps) : 0,
             .extended = request.extended};
    // Cache engines complete reads by fused completions, and batched completions replace fused ones.
    if (!terms.fused()) terms.caps &= ~uint32_t{WSS_CAP_CACHE | WSS_CAP_BATCHED_COMPLETION};
    if (terms.caps & WSS_CAP_KEEPALIVE) terms.keepalive_ms = limits.keepalive_ms;
    return std::nullopt;
}

size_t slot_bytes(const ChannelTerms& terms) noexcept {
    const size_t immediate =
        terms.max_it_iu > WSS_SRP_IMM_DATA_OFFSET ? terms.max_it_iu - WSS_SRP_IMM_DATA_OFFSET : 0;
    return kSlotImmediate + (immediate + kPage - 1) / kPage * kPage;
}

uint32_t receive_slots(const ChannelTerms& terms) noexcept {
    return terms.credits + kSpareReceives;
}

std::string to_string(const wire::PortId& id) {
    std::string text = "0x";
    for (uint8_t byte : id) text += fmt::format("{:02x}", byte);
    return text;
}

}  // namespace wss::block
