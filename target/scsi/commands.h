// SPDX-License-Identifier: Apache-2.0
// The table of commands, one row per command (invariant SC3), and the arguments of a handler.
//
// To add a command: write a handler `Action name(const Call&)` next to related ones, declare it below, and
// add a row in commands.cc. REPORT SUPPORTED OPERATION CODES returns the row's usage map. A CDB with any bit
// outside the map is refused before the handler runs, so handlers need not check reserved bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "target/scsi/answer.h"
#include "target/scsi/scsi.h"

namespace wss::scsi {

// A command that is being interpreted. The CDB is padded with zeroes to 16 bytes.
struct Call {
    const std::array<std::byte, 16>& cdb;
    const Device& device;
    std::span<const uint64_t> luns;
    UnitAttentions* attentions;  // nullptr: none
    Answer& answer;
    const Standing& standing;

    uint8_t u8(size_t at) const { return wire::get8(&cdb[at]); }
    uint16_t u16(size_t at) const { return wire::get16(&cdb[at]); }
    uint32_t u32(size_t at) const { return wire::get32(&cdb[at]); }
    uint64_t u64(size_t at) const { return wire::get64(&cdb[at]); }
    bool bit(size_t at, unsigned number) const { return u8(at) >> number & 1; }
};

inline constexpr int16_t kNoServiceAction = -1;

struct Row {
    uint8_t opcode;
    int16_t service_action;  // bits 4:0 of byte 1, or kNoServiceAction
    uint8_t length;          // of the CDB
    uint8_t traits;          // enum Trait
    Action (*handler)(const Call& call);
    std::array<uint8_t, 16> usage;  // bits that may be set, by byte; byte 0 is the opcode
};

enum Trait : uint8_t {
    kWithoutUnit = 1 << 0,    // answered even if the logical unit does not exist
    kPastAttention = 1 << 1,  // answered while a unit attention is pending
    kNeedsMedium = 1 << 2,    // the device must have blocks
    kNeedsDiscard = 1 << 3,   // exists only on devices with discard
    // Conflicts with reservations of other initiators: kReads conflicts with one for exclusive access,
    // kWrites with any (SPC-4 table 67, SBC-3 table 13). A row without either never conflicts.
    kReads = 1 << 4,
    kWrites = 1 << 5,
};

std::span<const Row> command_rows();
inline bool is_supported(const Row& row, const Device& device) {
    return device.discard || !(row.traits & kNeedsDiscard);
}

// Whether VPD pages and READ CAPACITY announce discard. For a write-protected unit they do not: it supports
// UNMAP, like WRITE, but refuses it, so an initiator has no use for it.
inline bool promises_discard(const Device& device) {
    return device.discard && !device.read_only;
}

// The first of the adjacent rows of an opcode, or nullptr if there is none.
const Row* first_row(uint8_t opcode);
// `service_action` is ignored for opcodes without service actions.
const Row* find_row(uint8_t opcode, uint8_t service_action);

// ---- Results of handlers.

inline Action fail(const wire::Sense& sense) {
    return Action{.kind = Action::Kind::kFail, .status = wire::kCheckCondition, .sense = sense};
}
inline Action reservation_conflict() {
    return Action{.kind = Action::Kind::kFail, .status = wire::kReservationConflict, .sense = {}};
}
inline Action respond(const Answer& answer) {
    return Action{.kind = Action::Kind::kRespond, .status = wire::kGood, .data_in_length = answer.written()};
}

// ---- Handlers, in inquiry.cc, mode.cc, report.cc, block.cc, persistent_reservations.cc.

Action inquiry(const Call& call);
Action mode_sense6(const Call& call);
Action mode_sense10(const Call& call);
Action report_luns(const Call& call);
Action report_supported_opcodes(const Call& call);
Action request_sense(const Call& call);
Action test_unit_ready(const Call& call);
Action start_stop_unit(const Call& call);
Action read_capacity10(const Call& call);
Action read_capacity16(const Call& call);
Action read(const Call& call);
Action write(const Call& call);
Action verify(const Call& call);
Action synchronize_cache(const Call& call);
Action compare_and_write(const Call& call);
Action write_same(const Call& call);
Action unmap(const Call& call);
Action read_keys(const Call& call);
Action read_reservation(const Call& call);
Action report_reservation_capabilities(const Call& call);
Action read_full_status(const Call& call);
Action reserve_out(const Call& call);

}  // namespace wss::scsi
