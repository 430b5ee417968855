// SPDX-License-Identifier: Apache-2.0
// Rights: the access of a channel's initiator to each unit, by access lists and persistent reservations. Both
// are looked up for the first command to the unit, and again after a change.
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
    // The restriction by reservations of other initiators. While there is none, the check costs one load.
    scsi::Restriction restriction(const Unit& unit) noexcept {
        return unit.reservations == nullptr ? scsi::Restriction::kNone : find_restriction(unit);
    }
    bool may_write(const Unit& unit) noexcept;
    // The status of a write that the initiator is not permitted to make.
    uint8_t refusal(const Unit& unit) noexcept {
        return restriction(unit) == scsi::Restriction::kNone ? wire::kCheckCondition
                                                             : wire::kReservationConflict;
    }
    // The LUNs that the initiator may see. Valid until the next call.
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

// The identity of a channel's initiator in reservations.
volume::Registrant registrant_of(const ChannelRecord& record);

}  // namespace wss::block
