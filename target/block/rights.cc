// SPDX-License-Identifier: Apache-2.0
#include "target/block/rights.h"

#include "target/block/session.h"

namespace wss::block {

volume::Registrant registrant_of(const ChannelRecord& record) {
    return {record.initiator, record.name};
}

Rights::OfUnit& Rights::of(uint64_t lun) {
    if (by_lun_.size() <= lun) by_lun_.resize(lun + 1);
    return by_lun_[lun];
}

volume::Permission Rights::permission(const Unit& unit) noexcept {
    const volume::AccessList& list = unit.open->access();
    if (list.open_to_all()) return volume::Permission::kWrite;
    auto& known = of(unit.lun()).permission;
    if (!known) known = list.of(record_.name);
    return *known;
}

scsi::Restriction Rights::find_restriction(const Unit& unit) noexcept {
    auto& known = of(unit.lun()).restriction;
    if (!known) known = scsi::restriction_of(*unit.reservations, registrant_of(record_));
    return *known;
}

bool Rights::may_write(const Unit& unit) noexcept {
    return !unit.open->volume().read_only() && permission(unit) == volume::Permission::kWrite &&
           restriction(unit) == scsi::Restriction::kNone;
}

std::span<const uint64_t> Rights::visible(const UnitTable& units) noexcept {
    visible_.clear();
    for (uint64_t lun : units.luns())
        if (permission(*units.find(lun)) != volume::Permission::kNone) visible_.push_back(lun);
    return visible_;
}

void Rights::access_changed(uint64_t lun) noexcept {
    if (lun < by_lun_.size()) by_lun_[lun].permission.reset();
}

void Rights::reservations_changed(uint64_t lun) noexcept {
    if (lun < by_lun_.size()) by_lun_[lun].restriction.reset();
}

}  // namespace wss::block
