// SPDX-License-Identifier: Apache-2.0
// InitiatorShare: the resources that the channels of an initiator hold together on one lane, in total and per
// volume (A2). An initiator is a proven name. Where no authentication is required, names prove nothing, so an
// initiator is a source (lib/fabric/sources.h). Either way, a host gains nothing from more sessions.
//
// Thread-safety: belongs to the lane's reactor.
// Lifetime: shared by its channels.
#pragma once

#include <memory>
#include <vector>

#include "target/block/arena.h"
#include "target/cache/command_share.h"

namespace wss::block {

// The resources that an initiator holds on a volume: an I_T_L nexus.
struct NexusShare {
    ShareRef buffers = ShareRef::make();
    cache::CommandShareRef commands = cache::CommandShareRef::make();
};

class InitiatorShare {
  public:
    Share& all() noexcept { return *all_; }
    // The share of commands without a volume.
    NexusShare& of_no_volume() noexcept { return of_no_volume_; }
    // Created on first use.
    NexusShare& of_volume(uint64_t lun) {
        if (by_lun_.size() <= lun) by_lun_.resize(lun + 1);
        if (by_lun_[lun] == nullptr) by_lun_[lun] = std::make_unique<NexusShare>();
        return *by_lun_[lun];
    }
    // The volume was removed. Resources that are still held for it remain in the initiator's total.
    void forget(uint64_t lun) noexcept {
        if (lun < by_lun_.size()) by_lun_[lun].reset();
    }

  private:
    ShareRef all_ = ShareRef::make();
    NexusShare of_no_volume_;
    std::vector<std::unique_ptr<NexusShare>> by_lun_;
};

}  // namespace wss::block
