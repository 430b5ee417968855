// SPDX-License-Identifier: Apache-2.0
// Persistent reservations of a volume, as data: its registrations and its reservation (SPC-4, 5.12).
// target/scsi/persistent_reservations.h implements the commands; reservation_book.h stores the data.
//
// Thread-safety: a plain value. Shared instances are immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/wire/srp.h"

namespace wss::volume {

// Per volume. All of them fit into one response to READ FULL STATUS.
constexpr size_t kRegistrationsMax = 64;
// Keeps an authenticated initiator from taking all registrations with many port ids.
constexpr size_t kRegistrationsPerName = 16;

// As in the CDB.
enum class ReservationType : uint8_t {
    kNone = 0,
    kWriteExclusive = 1,
    kExclusiveAccess = 3,
    kWriteExclusiveRegistrants = 5,
    kExclusiveAccessRegistrants = 6,
    kWriteExclusiveAll = 7,
    kExclusiveAccessAll = 8,
};
bool is_reservation_type(uint8_t type);  // false for kNone
// Every registrant is a holder.
inline bool is_for_all(ReservationType type) {
    return type == ReservationType::kWriteExclusiveAll || type == ReservationType::kExclusiveAccessAll;
}
// Every registrant may do all that the holder may.
inline bool admits_registrants(ReservationType type) {
    return type >= ReservationType::kWriteExclusiveRegistrants;
}
inline bool is_exclusive_access(ReservationType type) {
    return type == ReservationType::kExclusiveAccess ||
           type == ReservationType::kExclusiveAccessRegistrants ||
           type == ReservationType::kExclusiveAccessAll;
}

// An initiator is identified by the port id of its logins, which it keeps across reconnections, and its name.
// A port id is only a claim: the same port id with another name is a different initiator.
struct Registrant {
    wire::PortId port{};
    std::string name;  // proven; without authentication the port id as text
    bool operator==(const Registrant&) const = default;
};

struct Registration {
    Registrant initiator;
    uint64_t key = 0;
    bool is_holder = false;  // of a reservation that is not for all registrants
    bool operator==(const Registration&) const = default;
};

// The reason for a unit attention of a registered initiator.
enum class ReservationEvent : uint8_t {
    kReservationsPreempted,
    kReservationsReleased,
    kRegistrationsPreempted
};
struct ReservationNotice {
    Registrant initiator;
    ReservationEvent event;
};

struct Reservations {
    std::vector<Registration> registrations;
    ReservationType type = ReservationType::kNone;
    bool persists = false;  // APTPL: across a restart of the target
    // Not kept across a restart.
    uint32_t generation = 0;
    std::vector<ReservationNotice> notices;

    Registration* find(const Registrant& initiator);
    const Registration* find(const Registrant& initiator) const;
    bool is_holder(const Registration& registration) const {
        return type != ReservationType::kNone && (is_for_all(type) || registration.is_holder);
    }
    // nullptr: there is no reservation, or it is for all registrants.
    const Registration* holder() const;
};

}  // namespace wss::volume
