// SPDX-License-Identifier: Apache-2.0
// Persistent reservations (SPC-4, 5.12): what PERSISTENT RESERVE OUT makes of them, and what they forbid. The
// commands that only look (PERSISTENT RESERVE IN) are rows of the table of commands.
//
// Registrations are per initiator and volume. The target has one port, so that an initiator is a nexus. Not
// offered: REGISTER AND MOVE, SPEC_I_PT, ALL_TG_PT.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "target/scsi/scsi.h"
#include "target/volume/reservations.h"

namespace wss::scsi {

// What the reservation of others forbids `who`.
Restriction restriction_of(const volume::Reservations& reservations, const volume::Registrant& who);

// A PERSISTENT RESERVE OUT whose fields are checked.
struct ReserveOrder {
    uint8_t action = 0;  // wire::ReserveOut
    uint8_t type = 0;    // any; looked at where it counts
    uint64_t key = 0;
    uint64_t action_key = 0;
    bool persists = false;
};
// False: `sense` says why.
bool parse_reserve_out(Bytes cdb, Bytes list, const Device& device, ReserveOrder& out, wire::Sense& sense);

struct ReserveResult {
    uint8_t status = wire::kGood;
    wire::Sense sense;  // CHECK CONDITION
    std::optional<volume::Reservations> next;
    // Initiators may have lost the right to write: it is over when their writes are.
    bool fences = false;
    std::vector<volume::Registrant> aborted;  // whose commands are to be aborted
};
ReserveResult carry_out(const ReserveOrder& order, const volume::Registrant& who,
                        const volume::Reservations& now);

}  // namespace wss::scsi
