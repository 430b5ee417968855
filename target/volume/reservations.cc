// SPDX-License-Identifier: Apache-2.0
#include "target/volume/reservations.h"

#include <algorithm>

namespace wss::volume {

bool is_reservation_type(uint8_t type) {
    return type == 1 || type == 3 || (type >= 5 && type <= 8);
}

Registration* Reservations::find(const Registrant& initiator) {
    auto found = std::ranges::find(registrations, initiator, &Registration::initiator);
    return found == registrations.end() ? nullptr : &*found;
}

const Registration* Reservations::find(const Registrant& initiator) const {
    return const_cast<Reservations*>(this)->find(initiator);
}

const Registration* Reservations::holder() const {
    if (type == ReservationType::kNone || is_for_all(type)) return nullptr;
    auto found = std::ranges::find(registrations, true, &Registration::is_holder);
    return found == registrations.end() ? nullptr : &*found;
}

}  // namespace wss::volume
