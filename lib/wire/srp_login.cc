// SPDX-License-Identifier: Apache-2.0
// LOGIN_REQ, LOGIN_RSP and LOGIN_REJ: the private data of connecting, accepting and rejecting.
#include <algorithm>

#include "lib/wire/srp_bytes.h"
#include "lib/wire/text.h"

namespace wss::wire {

using detail::load;
using detail::store;
using detail::swap;

namespace {

constexpr uint8_t kMultiChannelMask = 0x03;
// SRP: an IU limit below 64 bytes is not useful, because a command with one direct descriptor has 64 bytes.
constexpr uint32_t kMaxItIuMin = 64;
// Immediate data cannot begin before the end of a command and its wss_srp_imm_buf.
constexpr uint16_t kImmDataOffsetMin = sizeof(wss_srp_cmd) + sizeof(wss_srp_imm_buf);
constexpr size_t kRejectWithoutText = sizeof(wss_srp_login_rej) - WSS_SRP_REJ_TEXT_MAX;

}  // namespace

ParseError parse_login_request(Bytes data, LoginRequest& out) {
    wss_srp_login_req raw;
    if (!load(data, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_LOGIN_REQ) return ParseError::kOpcode;
    uint8_t action = raw.req_flags & kMultiChannelMask;
    if (action > WSS_SRP_MULTICHAN_MULTI) return ParseError::kFormat;
    out.tag = raw.tag;
    out.buffer_formats = swap(raw.req_buf_fmt);
    out.multi_channel = action == WSS_SRP_MULTICHAN_MULTI;
    out.immediate = raw.req_flags & WSS_SRP_IMMED_REQUESTED;
    out.max_it_iu = swap(raw.req_it_iu_len);
    std::copy_n(raw.initiator_port_id, out.initiator_port.size(), out.initiator_port.begin());
    std::copy_n(raw.target_port_id, out.target_port.size(), out.target_port.begin());
    out.imm_data_offset = swap(raw.imm_data_offset);
    out.extended = swap(raw.ext_magic) == WSS_EXT_MAGIC;
    out.caps = out.extended ? swap(raw.ext_caps) : 0;
    if (out.immediate && out.imm_data_offset < kImmDataOffsetMin) return ParseError::kContradiction;
    return ParseError::kNone;
}

size_t encode_login_request(const LoginRequest& request, MutableBytes out) {
    wss_srp_login_req raw{};
    raw.tag = request.tag;
    raw.req_buf_fmt = swap(request.buffer_formats);
    raw.req_flags = uint8_t((request.multi_channel ? WSS_SRP_MULTICHAN_MULTI : WSS_SRP_MULTICHAN_SINGLE) |
                            (request.immediate ? WSS_SRP_IMMED_REQUESTED : 0));
    raw.opcode = WSS_SRP_LOGIN_REQ;
    raw.req_it_iu_len = swap(request.max_it_iu);
    std::copy_n(request.initiator_port.begin(), request.initiator_port.size(), raw.initiator_port_id);
    std::copy_n(request.target_port.begin(), request.target_port.size(), raw.target_port_id);
    raw.imm_data_offset = swap(request.imm_data_offset);
    if (request.extended) {
        raw.ext_magic = swap(uint16_t{WSS_EXT_MAGIC});
        raw.ext_caps = swap(request.caps);
    }
    return store(raw, out);
}

ParseError parse_login_response(Bytes data, LoginResponse& out) {
    wss_srp_login_rsp raw;
    if (!load(data, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_LOGIN_RSP) return ParseError::kOpcode;
    uint8_t result = raw.rsp_flags & kMultiChannelMask;
    if (result > WSS_SRP_LOGIN_RSP_MULTICHAN_MAINTAINED) return ParseError::kFormat;
    out.tag = raw.tag;
    out.credits = swap(raw.req_lim_delta);
    out.max_it_iu = swap(raw.max_it_iu_len);
    out.max_ti_iu = swap(raw.max_ti_iu_len);
    out.buffer_formats = swap(raw.buf_fmt);
    out.multi_channel = MultiChannelResult(result);
    out.immediate = raw.rsp_flags & WSS_SRP_LOGIN_RSP_IMMED_SUPP;
    out.extended = swap(raw.ext_magic) == WSS_EXT_MAGIC;
    out.caps = out.extended ? swap(raw.ext_caps) : 0;
    out.keepalive_ms = out.extended ? swap(raw.keepalive_ms) : 0;
    out.boot_id = out.extended ? swap(uint32_t{raw.boot_id}) : 0;
    out.session_epoch = out.extended ? swap(uint64_t{raw.session_epoch}) : 0;
    // Without credits no command could ever be sent. A response needs 36 bytes.
    if (out.credits == 0 || out.credits > detail::kCreditsMax) return ParseError::kContradiction;
    if (out.max_it_iu < kMaxItIuMin || out.max_ti_iu < sizeof(wss_srp_rsp)) return ParseError::kContradiction;
    return ParseError::kNone;
}

size_t encode_login_response(const LoginResponse& response, MutableBytes out) {
    wss_srp_login_rsp raw{};
    raw.opcode = WSS_SRP_LOGIN_RSP;
    raw.req_lim_delta = swap(response.credits);
    raw.tag = response.tag;
    raw.max_it_iu_len = swap(response.max_it_iu);
    raw.max_ti_iu_len = swap(response.max_ti_iu);
    raw.buf_fmt = swap(response.buffer_formats);
    raw.rsp_flags =
        uint8_t(uint8_t(response.multi_channel) | (response.immediate ? WSS_SRP_LOGIN_RSP_IMMED_SUPP : 0));
    if (response.extended) {
        raw.ext_magic = swap(uint16_t{WSS_EXT_MAGIC});
        raw.ext_caps = swap(response.caps);
        raw.keepalive_ms = swap(response.keepalive_ms);
        raw.session_epoch = swap(response.session_epoch);
        raw.boot_id = swap(response.boot_id);
    }
    return store(raw, out);
}

void LoginReject::set_text(std::string_view text) {
    text_length_ = uint8_t(copy_printable(text, text_));
}

ParseError parse_login_reject(Bytes data, LoginReject& out) {
    if (data.size() < kRejectWithoutText) return ParseError::kTooShort;
    wss_srp_login_rej raw{};
    std::memcpy(&raw, data.data(), std::min(data.size(), sizeof(raw)));
    if (raw.opcode != WSS_SRP_LOGIN_REJ) return ParseError::kOpcode;
    out.tag = raw.tag;
    out.reason = swap(raw.reason);
    out.buffer_formats = swap(raw.buf_fmt);
    out.set_text({raw.text, sizeof(raw.text)});
    return ParseError::kNone;
}

size_t encode_login_reject(const LoginReject& reject, MutableBytes out) {
    wss_srp_login_rej raw{};
    raw.opcode = WSS_SRP_LOGIN_REJ;
    raw.reason = swap(reject.reason);
    raw.tag = reject.tag;
    raw.buf_fmt = swap(reject.buffer_formats);
    std::copy(reject.text().begin(), reject.text().end(), raw.text);
    return store(raw, out);
}

std::string_view reject_reason_text(uint32_t reason) {
    switch (reason) {
        case WSS_SRP_REJ_UNABLE_TO_ESTABLISH:
            return "unable to establish the channel";
        case WSS_SRP_REJ_INSUFFICIENT_RESOURCES:
            return "the target does not have enough resources";
        case WSS_SRP_REJ_REQ_IT_IU_LENGTH_TOO_LARGE:
            return "the requested messages are too large";
        case WSS_SRP_REJ_UNABLE_ASSOCIATE_CHANNEL:
            return "no such target port, or not for this initiator";
        case WSS_SRP_REJ_UNSUPPORTED_DESCRIPTOR_FMT:
            return "a data buffer format is not supported";
        case WSS_SRP_REJ_MULTI_CHANNEL_UNSUPPORTED:
            return "several channels are not supported";
        case WSS_SRP_REJ_CHANNEL_LIMIT_REACHED:
            return "the channel limit is reached";
        default:
            return "unknown reason code";
    }
}

}  // namespace wss::wire
