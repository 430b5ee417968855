// SPDX-License-Identifier: Apache-2.0
// Persistent reservations of a volume, as data: who is registered, and what is reserved. SPC-4, 5.12. What
// commands make of them is in target/scsi/persistent_reservations.h; who keeps them, in reservation_book.h.
//
// Thread-safety: a value. What others see is immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/wire/srp.h"

namespace wss::volume {

// Of a volume. All of them fit into one answer of READ FULL STATUS.
constexpr size_t kRegistrationsMax = 64;
// One initiator that has proven its name cannot take all places with many port ids.
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
bool is_reservation_type(uint8_t type);  // kNone is none
// Every registrant holds it.
inline bool is_for_all(ReservationType type) {
    return type == ReservationType::kWriteExclusiveAll || type == ReservationType::kExclusiveAccessAll;
}
// Whoever is registered may do all that the holder may.
inline bool admits_registrants(ReservationType type) {
    return type >= ReservationType::kWriteExclusiveRegistrants;
}
inline bool is_exclusive_access(ReservationType type) {
    return type == ReservationType::kExclusiveAccess ||
           type == ReservationType::kExclusiveAccessRegistrants ||
           type == ReservationType::kExclusiveAccessAll;
}

// An initiator: the port id of its logins, which stays over reconnections, and its name. A port id is only a
// claim: one that another name logs in with is another initiator's.
struct Registrant {
    wire::PortId port{};
    std::string name;  // proven; where nobody authenticates the port id as text
    bool operator==(const Registrant&) const = default;
};

struct Registration {
    Registrant initiator;
    uint64_t key = 0;
    bool is_holder = false;  // of a reservation that is not for all
    bool operator==(const Registration&) const = default;
};

// What a registered initiator has to know of the change that led here.
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
    bool persists = false;  // APTPL: over a restart of the target
    // Not kept over a restart.
    uint32_t generation = 0;
    std::vector<ReservationNotice> notices;

    Registration* find(const Registrant& initiator);
    const Registration* find(const Registrant& initiator) const;
    bool is_holder(const Registration& registration) const {
        return type != ReservationType::kNone && (is_for_all(type) || registration.is_holder);
    }
    // nullptr: there is no reservation, or it is for all.
    const Registration* holder() const;
};

}  // namespace wss::volume
