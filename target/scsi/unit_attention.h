// SPDX-License-Identifier: Apache-2.0
// Unit attentions: what a nexus must be told before its next command to a logical unit is served.
//
// One per I_T_L nexus. A set, not a queue: a condition that is pending already is not told twice, so it needs
// no bound beyond the number of conditions. They are told in the order of the enumeration, most important
// first.
//
// Thread-safety: belongs to the thread that serves the nexus.
#pragma once

#include <cstdint>

#include "lib/wire/scsi.h"

namespace wss::scsi {

enum class Attention : uint8_t {
    kPowerOn,                // 29/00: a new nexus (optional: a first login knows nothing that could be stale)
    kReset,                  // 29/03: another initiator reset the unit
    kLunsChanged,            // 3F/0E: REPORT LUNS would answer something else
    kInquiryChanged,         // 3F/03
    kCapacityChanged,        // 2A/09
    kModeChanged,            // 2A/01: write protection or cache policy changed
    kReservationsPreempted,  // 2A/03
    kReservationsReleased,   // 2A/04
    kRegistrationsPreempted,  // 2A/05
};

class UnitAttentions {
  public:
    void add(Attention attention) { pending_ |= bit(attention); }
    void remove(Attention attention) { pending_ &= uint16_t(~bit(attention)); }
    bool empty() const { return pending_ == 0; }
    // Takes out the first. Must not be empty.
    wire::Sense take();

  private:
    static constexpr uint16_t bit(Attention attention) { return uint16_t(1u << unsigned(attention)); }
    uint16_t pending_ = 0;
};

}  // namespace wss::scsi
