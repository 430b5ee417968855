// SPDX-License-Identifier: Apache-2.0
// SRP messages: bytes from the wire ↔ checked values.
//
// The layouts are those of kernel/uapi/wss_srp.h. Documentation/protocol.md explains them. Code above this
// file never looks at raw message bytes.
//
// Rules
//  W1  parse_* reads untrusted bytes. On ParseError::kNone every length, count and sum in `out` has been
//      checked against the bytes and against each other. On any other value `out` must not be used, except
//      for Command::tag.
//  W2  Values that refer to bytes (spans, DataBuffer) point into the message. They are valid as long as the
//      message exists and its bytes do not change.
//  W3  encode_* writes into the caller's span, reserved bytes zero, and returns the length of the message.
//      It returns 0 if the message does not fit or cannot be expressed. Then nothing may be sent.
//  W4  No allocation, no exception, no text: these functions run for each I/O. to_string() is for log lines.
//  W5  `tag` is opaque: eight bytes of the initiator that the target returns unchanged, in any byte order.
//
// Thread-safety: pure functions over their arguments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernel/uapi/wss_srp.h"
#include "lib/wire/endian.h"

namespace wss::wire {

enum class ParseError : uint8_t {
    kNone = 0,
    kTooShort,       // fewer bytes than the message's fixed part
    kOpcode,         // not the message that the parser expects
    kFormat,         // a data buffer or login format that is unknown or was not negotiated
    kOutOfBounds,    // descriptors, immediate data, sense or response data reach beyond the message
    kDescriptors,    // descriptor count and table length contradict each other, or a descriptor is empty
    kTotal,          // the descriptors' sum is not the total length
    kAddressWraps,   // address + length passes 2^64
    kTooMany,        // more descriptors than kDescriptorsMax, or an index of an engine that is too large
    kContradiction,  // flags or lengths that contradict each other
    kReserved,       // bits that must be zero are not, or a reserved value or another version is used
};
std::string_view to_string(ParseError error);

// The first byte identifies every message except LOGIN_REQ (which is sent only as connect data). -1 for an
// empty message.
inline int opcode_of(Bytes message) {
    return message.empty() ? -1 : get8(message.data());
}

// ---- Logical unit numbers --------------------------------------------------------------------------------

// Stands for a LUN in a form that WSS does not use (hierarchical, well-known, …). Its unit counts as absent.
inline constexpr uint64_t kBadLun = ~uint64_t{0};
inline constexpr uint64_t kLunMax = (1u << 24) - 1;

// SAM: peripheral addressing below 256, flat below 16384, extended flat to kLunMax. `eight_bytes` points to
// the LUN field. Decoding accepts a small number in each of the three forms. Encoding uses the shortest.
// encode_lun() returns false if `lun` is greater than kLunMax.
uint64_t decode_lun(const std::byte* eight_bytes);
bool encode_lun(uint64_t lun, std::byte* eight_bytes);

// ---- Login -----------------------------------------------------------------------------------------------

using PortId = std::array<uint8_t, 16>;

struct LoginRequest {
    uint64_t tag = 0;
    uint16_t buffer_formats = WSS_SRP_BUF_FORMAT_DIRECT | WSS_SRP_BUF_FORMAT_INDIRECT;
    bool multi_channel = false;  // false: SINGLE, ends all other channels of this nexus
    bool immediate = false;      // requests immediate data at imm_data_offset
    uint32_t max_it_iu = WSS_SRP_MAX_IT_IU_LEN;
    PortId initiator_port{};
    PortId target_port{};
    uint16_t imm_data_offset = WSS_SRP_IMM_DATA_OFFSET;
    bool extended = false;  // a WSS peer: `caps` is valid
    uint32_t caps = 0;      // enum wss_cap; unknown bits are kept
};
// Private data may arrive longer than it was sent, because RDMA/CM pads it. Only the first 56 bytes are used.
ParseError parse_login_request(Bytes data, LoginRequest& out);
size_t encode_login_request(const LoginRequest& request, MutableBytes out);

enum class MultiChannelResult : uint8_t { kNoChannels = 0, kTerminated = 1, kMaintained = 2 };

struct LoginResponse {
    uint64_t tag = 0;
    uint32_t credits = 0;  // commands that may be outstanding
    uint32_t max_it_iu = 0;
    uint32_t max_ti_iu = 0;
    uint16_t buffer_formats = WSS_SRP_BUF_FORMAT_DIRECT | WSS_SRP_BUF_FORMAT_INDIRECT;
    MultiChannelResult multi_channel = MultiChannelResult::kNoChannels;
    bool immediate = false;
    bool extended = false;
    uint32_t caps = 0;  // granted
    uint32_t keepalive_ms = 0;
    uint64_t session_epoch = 0;
    uint32_t boot_id = 0;  // boot id of the target's machine; 0: not reported
};
ParseError parse_login_response(Bytes data, LoginResponse& out);
size_t encode_login_response(const LoginResponse& response, MutableBytes out);

struct LoginReject {
    uint64_t tag = 0;
    uint32_t reason = 0;  // enum wss_srp_rej_reason, or any value of a foreign target
    uint16_t buffer_formats = WSS_SRP_BUF_FORMAT_DIRECT | WSS_SRP_BUF_FORMAT_INDIRECT;

    // The reason in words; empty if a stock target sent the reject. Always printable UTF-8: set_text()
    // replaces control characters, direction marks and malformed sequences with '?' and cuts between
    // characters at WSS_SRP_REJ_TEXT_MAX bytes.
    std::string_view text() const { return {text_.data(), text_length_}; }
    void set_text(std::string_view text);

  private:
    std::array<char, WSS_SRP_REJ_TEXT_MAX> text_{};
    uint8_t text_length_ = 0;
};
ParseError parse_login_reject(Bytes data, LoginReject& out);
size_t encode_login_reject(const LoginReject& reject, MutableBytes out);
// Describes a reject reason as SRP defines it, for a reject without text.
std::string_view reject_reason_text(uint32_t reason);

// ---- Commands --------------------------------------------------------------------------------------------

// Memory of the initiator that the target may access by RDMA during one command.
struct RemoteBuffer {
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t length = 0;
    bool operator==(const RemoteBuffer&) const = default;
};

// Descriptors of one command: the maximum that a stock Linux initiator can be configured to send.
inline constexpr uint32_t kDescriptorsMax = 2048;

// Where the data of one direction is. A direct descriptor, a table of descriptors or immediate data of length
// zero makes the buffer kNone.
struct DataBuffer {
    enum class Kind : uint8_t { kNone, kDirect, kIndirect, kImmediate };

    Kind kind = Kind::kNone;
    // kIndirect: the message holds `count` descriptors, and the table `table_count` > count. Before using
    // descriptor(), fetch `table` (by RDMA READ, table.length bytes) and pass the bytes to
    // parse_descriptor_table().
    bool partial = false;
    uint32_t length = 0;  // bytes in total
    uint32_t count = 0;   // valid arguments of descriptor(): 0 … count - 1; 0 for kNone and kImmediate
    uint32_t table_count = 0;
    RemoteBuffer table;  // kIndirect: the initiator's copy of the descriptors
    const std::byte* raw = nullptr;

    RemoteBuffer descriptor(uint32_t index) const {
        const std::byte* at = raw + size_t{index} * sizeof(wss_srp_direct_buf);
        return {get64(at), get32(at + 8), get32(at + 12)};
    }
};

// Replaces the descriptors of a partial buffer with a fetched table, which must have buffer.table.length
// bytes.
ParseError parse_descriptor_table(Bytes table, DataBuffer& buffer);

struct Command {
    uint64_t tag = 0;            // valid except after kTooShort and kOpcode: a refusal can name its command
    uint64_t lun = 0;            // kBadLun: answer as for an absent unit
    uint8_t task_attribute = 0;  // 0 simple, 1 head of queue, 2 ordered, 4 ACA; others refused (kReserved)
    Bytes cdb;                   // 16 bytes, or more with additional CDB bytes
    DataBuffer out;              // initiator to target
    DataBuffer in;               // target to initiator
    Bytes immediate;             // the data of out.kind == kImmediate
};
// `imm_data_offset` is that of the login, or 0 if immediate data was not negotiated.
ParseError parse_command(Bytes message, uint16_t imm_data_offset, Command& out);

// A command of an initiator. At most one direction and one kind of data:
//  none:       direction kNone
//  direct:     one descriptor, which is `descriptors[0]`
//  indirect:   all of `descriptors` (≤ 255) in the message; `table` names their copy in memory (may be zero)
//  immediate:  direction kOut, immediate_length > 0; the caller puts the data at imm_data_offset itself
struct CommandRequest {
    enum class Direction : uint8_t { kNone, kOut, kIn };

    uint64_t tag = 0;
    uint64_t lun = 0;
    uint8_t task_attribute = 0;
    Direction direction = Direction::kNone;
    Bytes cdb;  // ≤ 16 bytes: zero-padded; longer (≤ 16 + 252): additional CDB
    std::span<const RemoteBuffer> descriptors;
    RemoteBuffer table;
    uint32_t immediate_length = 0;
    uint16_t imm_data_offset = WSS_SRP_IMM_DATA_OFFSET;
};
// Returns the length to send. For immediate data that is imm_data_offset, and immediate_length bytes of data
// follow.
size_t encode_command(const CommandRequest& request, MutableBytes out);

struct TaskManagement {
    uint64_t tag = 0;
    uint64_t lun = 0;
    uint8_t function = 0;  // enum wss_srp_tsk_mgmt_func; other values are answered by "not supported"
    uint64_t task_tag = 0;
};
ParseError parse_task_management(Bytes message, TaskManagement& out);
size_t encode_task_management(const TaskManagement& request, MutableBytes out);

// ---- Responses -------------------------------------------------------------------------------------------

struct Residual {
    enum class Kind : uint8_t { kNone, kUnder, kOver };
    Kind kind = Kind::kNone;
    uint32_t bytes = 0;  // not transferred (kUnder), or that did not fit (kOver)
    bool operator==(const Residual&) const = default;
};

struct Response {
    uint64_t tag = 0;
    uint32_t credits = 0;  // returned to the initiator
    uint8_t status = 0;    // SAM status
    bool has_task_status = false;
    uint8_t task_status = 0;  // enum wss_srp_tsk_mgmt_status, byte 3 of the response data
    Residual out;
    Residual in;
    Bytes sense;  // empty: none
};
ParseError parse_response(Bytes message, Response& out);
size_t encode_response(const Response& response, MutableBytes out);

// A fused completion (WSS_CAP_FUSED_COMPLETION): content of the 32-bit immediate value of an RDMA WRITE.
struct FusedCompletion {
    uint16_t tag = 0;  // low 16 bits of the command's tag, read as a number of the initiator's byte order
    uint8_t credits = 0;
    bool operator==(const FusedCompletion&) const = default;
};
inline uint32_t pack_fused(FusedCompletion fused) {
    return uint32_t{fused.tag} << WSS_FUSED_TAG_SHIFT | uint32_t{fused.credits} << WSS_FUSED_CREDIT_SHIFT;
}
inline ParseError unpack_fused(uint32_t immediate, FusedCompletion& out) {
    out.tag = uint16_t(immediate >> WSS_FUSED_TAG_SHIFT & WSS_FUSED_TAG_MASK);
    out.credits = uint8_t(immediate >> WSS_FUSED_CREDIT_SHIFT & WSS_FUSED_CREDIT_MASK);
    return immediate & WSS_FUSED_RESERVED_MASK ? ParseError::kReserved : ParseError::kNone;
}

// Completions without data of several commands in one message (WSS_CAP_BATCHED_COMPLETION).
struct Done {
    uint32_t credits = 0;
    Bytes tags;  // two bytes each; at least one
    size_t count() const { return tags.size() / sizeof(uint16_t); }
    uint16_t tag(size_t index) const { return get16(tags.data() + index * sizeof(uint16_t)); }
};
inline constexpr size_t kDoneMax = WSS_SRP_BATCH_RSP_MAX;
inline constexpr size_t done_bytes(size_t count) {
    return sizeof(wss_srp_batch_rsp) + count * sizeof(uint16_t);
}
ParseError parse_done(Bytes message, Done& out);
size_t encode_done(uint32_t credits, std::span<const uint16_t> tags, MutableBytes out);

// ---- The small messages ----------------------------------------------------------------------------------

// CRED_RSP, AER_RSP, I_LOGOUT, KEEPALIVE_REQ, KEEPALIVE_RSP: an opcode and a tag.
struct ShortMessage {
    uint8_t opcode = 0;
    uint64_t tag = 0;
};
ParseError parse_short(Bytes message, ShortMessage& out);
size_t encode_short(const ShortMessage& message, MutableBytes out);

struct CreditRequest {
    uint64_t tag = 0;
    uint32_t credits = 0;
};
ParseError parse_credit_request(Bytes message, CreditRequest& out);
size_t encode_credit_request(const CreditRequest& request, MutableBytes out);

// Asynchronous event of a stock target. The answer is an AER_RSP with the same tag.
struct AsyncEvent {
    uint64_t tag = 0;
    uint32_t credits = 0;
    uint64_t lun = 0;
    Bytes sense;
};
ParseError parse_async_event(Bytes message, AsyncEvent& out);
size_t encode_async_event(const AsyncEvent& event, MutableBytes out);

struct TargetLogout {
    uint64_t tag = 0;
    uint32_t reason = 0;  // enum wss_srp_logout_reason, or another value of a stock target
};
ParseError parse_target_logout(Bytes message, TargetLogout& out);
size_t encode_target_logout(const TargetLogout& logout, MutableBytes out);
std::string_view logout_reason(uint32_t reason);  // the reason in words

struct Notify {
    uint8_t event = 0;  // enum wss_srp_notify_event; an unknown one means that anything may have changed
    uint64_t lun = 0;
};
ParseError parse_notify(Bytes message, Notify& out);
size_t encode_notify(const Notify& notify, MutableBytes out);

}  // namespace wss::wire
