// SPDX-License-Identifier: Apache-2.0
// Persistent reservations (SPC-4, 5.12): the effect of PERSISTENT RESERVE OUT, and the restrictions of other
// initiators. PERSISTENT RESERVE IN is handled by rows of the command table.
//
// Registrations are per initiator and volume. The target has one port, so an initiator is a nexus. REGISTER
// AND MOVE, SPEC_I_PT and ALL_TG_PT are not supported.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "target/scsi/scsi.h"
#include "target/volume/reservations.h"

namespace wss::scsi {

// The restriction of `who` by a reservation of another initiator.
Restriction restriction_of(const volume::Reservations& reservations, const volume::Registrant& who);

// A PERSISTENT RESERVE OUT with checked fields.
struct ReserveOrder {
    uint8_t action = 0;  // wire::ReserveOut
    uint8_t type = 0;    // any value; carry_out() checks it where it is used
    uint64_t key = 0;
    uint64_t action_key = 0;
    bool persists = false;
};
// Returns false if the command is refused, with the reason in `sense`.
bool parse_reserve_out(Bytes cdb, Bytes list, const Device& device, ReserveOrder& out, wire::Sense& sense);

struct ReserveResult {
    uint8_t status = wire::kGood;
    wire::Sense sense;                         // sense data for CHECK CONDITION
    std::optional<volume::Reservations> next;  // nullopt: unchanged
    // Initiators may have lost the right to write. The command then ends only when their writes have ended.
    bool fences = false;
    std::vector<volume::Registrant> aborted;  // initiators whose commands must be aborted
};
ReserveResult carry_out(const ReserveOrder& order, const volume::Registrant& who,
                        const volume::Reservations& now);

}  // namespace wss::scsi
