// SPDX-License-Identifier: Apache-2.0
// Attentions: the pending unit attentions of a channel, by LUN.
//
// Thread-safety: belongs to the channel's reactor.
#pragma once

#include <span>
#include <vector>

#include "target/scsi/unit_attention.h"
#include "target/volume/reservations.h"
#include "target/volume/volume.h"

namespace wss::block {

class Attentions {
  public:
    // Returns nullptr if no attention has been added for `lun` or any later LUN.
    scsi::UnitAttentions* of(uint64_t lun) noexcept { return lun < by_lun_.size() ? &by_lun_[lun] : nullptr; }
    void add(uint64_t lun, scsi::Attention attention);
    // `luns_changed`: the answer to REPORT LUNS has changed. If so, each LUN of `luns` gets an attention.
    void volume_changed(volume::Change change, uint64_t lun, bool luns_changed,
                        std::span<const uint64_t> luns);
    void reservations_changed(uint64_t lun, const volume::Reservations& change,
                              const volume::Registrant& own);

  private:
    std::vector<scsi::UnitAttentions> by_lun_;
};

}  // namespace wss::block
