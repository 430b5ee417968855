// SPDX-License-Identifier: Apache-2.0
#include "target/block/attentions.h"

namespace wss::block {

void Attentions::add(uint64_t lun, scsi::Attention attention) {
    if (by_lun_.size() <= lun) by_lun_.resize(lun + 1);
    by_lun_[lun].add(attention);
}

void Attentions::volume_changed(volume::Change change, uint64_t lun, bool luns_changed,
                                std::span<const uint64_t> luns) {
    using Change = volume::Change;
    if (change == Change::kResized) add(lun, scsi::Attention::kCapacityChanged);
    if (change == Change::kReadOnly || (change == Change::kAccess && !luns_changed))
        add(lun, scsi::Attention::kModeChanged);
    if (!luns_changed) return;
    for (uint64_t each : luns) add(each, scsi::Attention::kLunsChanged);
}

void Attentions::reservations_changed(uint64_t lun, const volume::Reservations& change,
                                      const volume::Registrant& own) {
    // Indexed by ReservationEvent.
    constexpr scsi::Attention kAttentions[] = {scsi::Attention::kReservationsPreempted,
                                               scsi::Attention::kReservationsReleased,
                                               scsi::Attention::kRegistrationsPreempted};
    for (const volume::ReservationNotice& notice : change.notices)
        if (notice.initiator == own) add(lun, kAttentions[static_cast<size_t>(notice.event)]);
}

}  // namespace wss::block
