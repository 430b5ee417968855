// SPDX-License-Identifier: Apache-2.0
// Rights: what the initiator of a channel may do with each unit, by access lists and persistent reservations.
// Each is looked up for the first command of the initiator to the unit, and again after a change.
//
// Thread-safety: belongs to the channel's reactor.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "target/block/unit.h"
#include "target/scsi/persistent_reservations.h"

namespace wss::block {

struct ChannelRecord;

class Rights {
  public:
    explicit Rights(const ChannelRecord& record) : record_(record) {}

    volume::Permission permission(const Unit& unit) noexcept;
    // By reservations of others. One load while there is none.
    scsi::Restriction restriction(const Unit& unit) noexcept {
        return unit.reservations == nullptr ? scsi::Restriction::kNone : find_restriction(unit);
    }
    bool may_write(const Unit& unit) noexcept;
    // The status of a write that it may not make.
    uint8_t refusal(const Unit& unit) noexcept {
        return restriction(unit) == scsi::Restriction::kNone ? wire::kCheckCondition
                                                             : wire::kReservationConflict;
    }
    // Those that it may see.
    std::span<const uint64_t> visible(const UnitTable& units) noexcept;

    void access_changed(uint64_t lun) noexcept;
    void reservations_changed(uint64_t lun) noexcept;

  private:
    struct OfUnit {
        std::optional<volume::Permission> permission;
        std::optional<scsi::Restriction> restriction;
    };
    OfUnit& of(uint64_t lun);
    scsi::Restriction find_restriction(const Unit& unit) noexcept;

    const ChannelRecord& record_;
    std::vector<OfUnit> by_lun_;
    std::vector<uint64_t> visible_;
};

// The initiator of a channel, as reservations know it.
volume::Registrant registrant_of(const ChannelRecord& record);

}  // namespace wss::block
