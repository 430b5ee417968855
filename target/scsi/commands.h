// SPDX-License-Identifier: Apache-2.0
// The table of commands: one row each (invariant SC3), and what a handler sees.
//
// To add a command: write a handler `Action name(const Call&)` beside its kin, declare it below, add a row in
// commands.cc. The row's usage map is what REPORT SUPPORTED OPERATION CODES shows, and a CDB with any bit
// outside it is refused before the handler runs: handlers need not look at reserved bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "target/scsi/answer.h"
#include "target/scsi/scsi.h"

namespace wss::scsi {

// A command while it is interpreted. Handlers see a CDB of 16 bytes, zero behind its own length.
struct Call {
    const std::array<std::byte, 16>& cdb;
    const Device& device;
    std::span<const uint64_t> luns;
    UnitAttentions* attentions;  // may be null
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
    kWithoutUnit = 1 << 0,    // answered where there is no logical unit
    kPastAttention = 1 << 1,  // answered while a unit attention is pending
    kNeedsMedium = 1 << 2,    // the device must have blocks
    kNeedsDiscard = 1 << 3,   // exists only on devices with discard
    // Conflicts with a reservation of others: with one for exclusive access, or with any (SPC-4 table 67,
    // SBC-3 table 13). Rows without either are served always.
    kReads = 1 << 4,
    kWrites = 1 << 5,
};

std::span<const Row> command_rows();
inline bool is_supported(const Row& row, const Device& device) {
    return device.discard || !(row.traits & kNeedsDiscard);
}

// What the answers promise. UNMAP exists on a unit that is write-protected now, as WRITE does, and is refused
// as WRITE is; an initiator that may not change the unit has no use for it.
inline bool promises_discard(const Device& device) {
    return device.discard && !device.read_only;
}

// The rows of one opcode are neighbours; null: there is none.
const Row* first_row(uint8_t opcode);
// `service_action` counts only where the opcode has some.
const Row* find_row(uint8_t opcode, uint8_t service_action);

// ---- What handlers return.

inline Action fail(const wire::Sense& sense) {
    return Action{.kind = Action::Kind::kFail, .status = wire::kCheckCondition, .sense = sense};
}
inline Action reservation_conflict() {
    return Action{.kind = Action::Kind::kFail, .status = wire::kReservationConflict, .sense = {}};
}
inline Action respond(const Answer& answer) {
    return Action{.kind = Action::Kind::kRespond, .status = wire::kGood, .data_in_length = answer.written()};
}

// ---- Handlers. inquiry.cc, mode.cc, report.cc, block.cc, persistent_reservations.cc.

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
