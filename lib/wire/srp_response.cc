// SPDX-License-Identifier: Apache-2.0
// SRP_RSP and the small messages: credits, asynchronous events, logout, keep-alive, notification; LUNs.
#include <algorithm>

#include "lib/wire/srp_bytes.h"

namespace wss::wire {

using detail::kCreditsMax;
using detail::load;
using detail::store;
using detail::swap;

namespace {

constexpr uint32_t kTaskResponseBytes = 4;
constexpr size_t kTaskStatusAt = 3;

// SRP_AER_REQ, sent only by stock targets. It is not in the shared header, because the driver only answers
// it.
constexpr size_t kAerCreditsAt = 4;
constexpr size_t kAerTagAt = 8;
constexpr size_t kAerLunAt = 20;
constexpr size_t kAerSenseLengthAt = 28;
constexpr size_t kAerBytes = 36;

// Converts the two residual flags of one direction. Returns false if both are set.
bool parse_residual(bool over, bool under, uint32_t bytes, Residual& out) {
    out = {};
    if (over && under) return false;
    if (over) out = {Residual::Kind::kOver, bytes};
    if (under) out = {Residual::Kind::kUnder, bytes};
    return true;
}

uint8_t residual_flags(const Residual& residual, uint8_t over, uint8_t under) {
    switch (residual.kind) {
        case Residual::Kind::kOver:
            return over;
        case Residual::Kind::kUnder:
            return under;
        default:
            return 0;
    }
}

bool is_short_opcode(uint8_t opcode) {
    return opcode == WSS_SRP_CRED_RSP || opcode == WSS_SRP_AER_RSP || opcode == WSS_SRP_I_LOGOUT ||
           opcode == WSS_SRP_KEEPALIVE_REQ || opcode == WSS_SRP_KEEPALIVE_RSP;
}

}  // namespace

std::string_view to_string(ParseError error) {
    switch (error) {
        case ParseError::kNone:
            return "no error";
        case ParseError::kTooShort:
            return "message shorter than its fixed part";
        case ParseError::kOpcode:
            return "unexpected opcode";
        case ParseError::kFormat:
            return "data buffer or login format unknown or not negotiated";
        case ParseError::kOutOfBounds:
            return "descriptors or data reach beyond the message";
        case ParseError::kDescriptors:
            return "descriptor count and table length contradict each other, or a descriptor is empty";
        case ParseError::kTotal:
            return "descriptors do not sum up to the total length";
        case ParseError::kAddressWraps:
            return "address plus length passes 2^64";
        case ParseError::kTooMany:
            return "too many descriptors";
        case ParseError::kContradiction:
            return "fields contradict each other";
        case ParseError::kReserved:
            return "reserved value";
    }
    return "unknown parse error";
}

uint64_t decode_lun(const std::byte* lun) {
    uint64_t bits = get64(lun);
    unsigned method = unsigned(bits >> 62);
    if (method == 0 && (bits & 0xff00ffffffffffff) == 0) return bits >> 48;
    if (method == 1 && (bits & 0x0000ffffffffffff) == 0) return bits >> 48 & 0x3fff;
    // Extended flat addressing with three bytes: D2h, then 24 bits.
    if (bits >> 56 == 0xd2 && (bits & 0xffffffff) == 0) return bits >> 32 & kLunMax;
    return kBadLun;
}

bool encode_lun(uint64_t lun, std::byte* out) {
    if (lun > kLunMax) return false;
    uint64_t bits = lun << 48;
    if (lun > 0x3fff)
        bits = uint64_t{0xd2} << 56 | lun << 32;
    else if (lun > 0xff)
        bits = (lun | 0x4000) << 48;
    put64(out, bits);
    return true;
}

ParseError parse_response(Bytes message, Response& out) {
    wss_srp_rsp raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_RSP) return ParseError::kOpcode;
    out = Response{};
    out.tag = raw.tag;
    out.credits = swap(raw.req_lim_delta);
    out.status = raw.status;
    bool out_ok = parse_residual(raw.flags & WSS_SRP_RSP_FLAG_DOOVER, raw.flags & WSS_SRP_RSP_FLAG_DOUNDER,
                                 swap(raw.data_out_res_cnt), out.out);
    bool in_ok = parse_residual(raw.flags & WSS_SRP_RSP_FLAG_DIOVER, raw.flags & WSS_SRP_RSP_FLAG_DIUNDER,
                                swap(raw.data_in_res_cnt), out.in);
    if (!out_ok || !in_ok || out.credits > kCreditsMax) return ParseError::kContradiction;

    uint64_t response_length = swap(raw.resp_data_len);
    uint64_t sense_length = swap(raw.sense_data_len);
    out.has_task_status = raw.flags & WSS_SRP_RSP_FLAG_RSPVALID;
    bool has_sense = raw.flags & WSS_SRP_RSP_FLAG_SNSVALID;
    // The position of the sense data depends on the length of the response data, so a length without its flag
    // is ambiguous.
    if (!out.has_task_status && response_length > 0) return ParseError::kContradiction;
    if (!has_sense && sense_length > 0) return ParseError::kContradiction;
    if (out.has_task_status && response_length < kTaskResponseBytes) return ParseError::kContradiction;
    if (response_length + sense_length > message.size() - sizeof(raw)) return ParseError::kOutOfBounds;
    if (out.has_task_status) out.task_status = get8(message.data() + sizeof(raw) + kTaskStatusAt);
    out.sense = message.subspan(sizeof(raw) + response_length, sense_length);
    return ParseError::kNone;
}

size_t encode_response(const Response& response, MutableBytes out) {
    uint32_t response_length = response.has_task_status ? kTaskResponseBytes : 0;
    size_t length = sizeof(wss_srp_rsp) + response_length + response.sense.size();
    if (length > out.size()) return 0;
    wss_srp_rsp raw{};
    raw.opcode = WSS_SRP_RSP;
    raw.req_lim_delta = swap(response.credits);
    raw.tag = response.tag;
    raw.flags = uint8_t((response.has_task_status ? WSS_SRP_RSP_FLAG_RSPVALID : 0) |
                        (response.sense.empty() ? 0 : WSS_SRP_RSP_FLAG_SNSVALID) |
                        residual_flags(response.out, WSS_SRP_RSP_FLAG_DOOVER, WSS_SRP_RSP_FLAG_DOUNDER) |
                        residual_flags(response.in, WSS_SRP_RSP_FLAG_DIOVER, WSS_SRP_RSP_FLAG_DIUNDER));
    raw.status = response.status;
    raw.data_out_res_cnt = swap(response.out.bytes);
    raw.data_in_res_cnt = swap(response.in.bytes);
    raw.sense_data_len = swap(uint32_t(response.sense.size()));
    raw.resp_data_len = swap(response_length);
    store(raw, out);
    if (response.has_task_status) put32(out.data() + sizeof(raw), response.task_status);
    std::ranges::copy(response.sense, out.begin() + sizeof(raw) + response_length);
    return length;
}

ParseError parse_done(Bytes message, Done& out) {
    wss_srp_batch_rsp raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_BATCH_RSP) return ParseError::kOpcode;
    if (raw.reserved[0] != 0 || raw.reserved[1] != 0) return ParseError::kReserved;
    if (done_bytes(raw.count) > message.size()) return ParseError::kOutOfBounds;
    out = {swap(raw.req_lim_delta), message.subspan(sizeof(raw), raw.count * sizeof(uint16_t))};
    return raw.count == 0 || out.credits > kCreditsMax ? ParseError::kContradiction : ParseError::kNone;
}

size_t encode_done(uint32_t credits, std::span<const uint16_t> tags, MutableBytes out) {
    if (tags.empty() || tags.size() > kDoneMax || done_bytes(tags.size()) > out.size()) return 0;
    wss_srp_batch_rsp raw{};
    raw.opcode = WSS_SRP_BATCH_RSP;
    raw.count = uint8_t(tags.size());
    raw.req_lim_delta = swap(credits);
    store(raw, out);
    for (size_t i = 0; i < tags.size(); ++i) put16(out.data() + done_bytes(i), tags[i]);
    return done_bytes(tags.size());
}

ParseError parse_short(Bytes message, ShortMessage& out) {
    wss_srp_short raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (!is_short_opcode(raw.opcode)) return ParseError::kOpcode;
    out = {raw.opcode, raw.tag};
    return ParseError::kNone;
}

size_t encode_short(const ShortMessage& message, MutableBytes out) {
    if (!is_short_opcode(message.opcode)) return 0;
    wss_srp_short raw{};
    raw.opcode = message.opcode;
    raw.tag = message.tag;
    return store(raw, out);
}

ParseError parse_credit_request(Bytes message, CreditRequest& out) {
    wss_srp_cred_req raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_CRED_REQ) return ParseError::kOpcode;
    out = {raw.tag, swap(raw.req_lim_delta)};
    return out.credits > kCreditsMax ? ParseError::kContradiction : ParseError::kNone;
}

size_t encode_credit_request(const CreditRequest& request, MutableBytes out) {
    wss_srp_cred_req raw{};
    raw.opcode = WSS_SRP_CRED_REQ;
    raw.req_lim_delta = swap(request.credits);
    raw.tag = request.tag;
    return store(raw, out);
}

ParseError parse_async_event(Bytes message, AsyncEvent& out) {
    if (message.size() < kAerBytes) return ParseError::kTooShort;
    if (opcode_of(message) != WSS_SRP_AER_REQ) return ParseError::kOpcode;
    out.credits = get32(message.data() + kAerCreditsAt);
    std::memcpy(&out.tag, message.data() + kAerTagAt, sizeof(out.tag));
    out.lun = decode_lun(message.data() + kAerLunAt);
    uint32_t sense_length = get32(message.data() + kAerSenseLengthAt);
    if (out.credits > kCreditsMax) return ParseError::kContradiction;
    if (sense_length > message.size() - kAerBytes) return ParseError::kOutOfBounds;
    out.sense = message.subspan(kAerBytes, sense_length);
    return ParseError::kNone;
}

size_t encode_async_event(const AsyncEvent& event, MutableBytes out) {
    size_t length = kAerBytes + event.sense.size();
    if (length > out.size()) return 0;
    std::fill_n(out.begin(), kAerBytes, std::byte{0});
    if (!encode_lun(event.lun, out.data() + kAerLunAt)) return 0;
    put8(out.data(), WSS_SRP_AER_REQ);
    put32(out.data() + kAerCreditsAt, event.credits);
    std::memcpy(out.data() + kAerTagAt, &event.tag, sizeof(event.tag));
    put32(out.data() + kAerSenseLengthAt, uint32_t(event.sense.size()));
    std::ranges::copy(event.sense, out.begin() + kAerBytes);
    return length;
}

ParseError parse_target_logout(Bytes message, TargetLogout& out) {
    wss_srp_t_logout raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_T_LOGOUT) return ParseError::kOpcode;
    out = {raw.tag, swap(raw.reason)};
    return ParseError::kNone;
}

size_t encode_target_logout(const TargetLogout& logout, MutableBytes out) {
    wss_srp_t_logout raw{};
    raw.opcode = WSS_SRP_T_LOGOUT;
    raw.reason = swap(logout.reason);
    raw.tag = logout.tag;
    return store(raw, out);
}

std::string_view logout_reason(uint32_t reason) {
    switch (reason) {
        case WSS_SRP_LOGOUT_UNKNOWN_MESSAGE:
            return "a message of an unknown type";
        case WSS_SRP_LOGOUT_MALFORMED:
            return "a malformed message";
        case WSS_SRP_LOGOUT_BEYOND_CREDITS:
            return "a command beyond its credits";
        case WSS_SRP_LOGOUT_NOT_AGREED:
            return "a message that was not negotiated";
        case WSS_SRP_LOGOUT_NOT_AUTHENTICATED:
            return "another message during authentication";
        case WSS_SRP_LOGOUT_ENDED:
            return "an operator ended the session";
        case WSS_SRP_LOGOUT_SHUTDOWN:
            return "the target is shutting down";
        default:
            return "no reason given";
    }
}

ParseError parse_notify(Bytes message, Notify& out) {
    wss_srp_notify raw;
    if (!load(message, raw)) return ParseError::kTooShort;
    if (raw.opcode != WSS_SRP_NOTIFY) return ParseError::kOpcode;
    out = {raw.event, decode_lun(message.data() + offsetof(wss_srp_notify, lun))};
    return ParseError::kNone;
}

size_t encode_notify(const Notify& notify, MutableBytes out) {
    wss_srp_notify raw{};
    raw.opcode = WSS_SRP_NOTIFY;
    raw.event = notify.event;
    if (!encode_lun(notify.lun, reinterpret_cast<std::byte*>(raw.lun))) return 0;
    return store(raw, out);
}

}  // namespace wss::wire
