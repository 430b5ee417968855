// SPDX-License-Identifier: Apache-2.0
// UnitAttentions: the pending unit attentions of one I_T_L nexus, which are reported before its next command
// is executed.
//
// It is a set, not a queue: a condition that is already pending is reported once, so the number of conditions
// bounds the size. Conditions are reported in the order of the enumeration, most important first.
//
// Thread-safety: belongs to the thread that serves the nexus.
#pragma once

#include <cstdint>

#include "lib/wire/scsi.h"

namespace wss::scsi {

enum class Attention : uint8_t {
    kPowerOn,                 // 29/00: a new nexus (optional: no state can be stale after a first login)
    kReset,                   // 29/03: another initiator reset the unit
    kLunsChanged,             // 3F/0E: the answer of REPORT LUNS has changed
    kInquiryChanged,          // 3F/03
    kCapacityChanged,         // 2A/09
    kModeChanged,             // 2A/01: write protection changed
    kReservationsPreempted,   // 2A/03
    kReservationsReleased,    // 2A/04
    kRegistrationsPreempted,  // 2A/05
};

class UnitAttentions {
  public:
    void add(Attention attention) { pending_ |= bit(attention); }
    void remove(Attention attention) { pending_ &= uint16_t(~bit(attention)); }
    bool empty() const { return pending_ == 0; }
    // Removes the first condition and returns it. The set must not be empty.
    wire::Sense take();

  private:
    static constexpr uint16_t bit(Attention attention) { return uint16_t(1u << unsigned(attention)); }
    uint16_t pending_ = 0;
};

}  // namespace wss::scsi
