// SPDX-License-Identifier: Apache-2.0
// InitiatorShare: what the channels of an initiator on one lane hold together, in all and of each volume
// (A2). An initiator is a name that was proven; where nobody authenticates, and names are claims, a source
// (lib/fabric/sources.h). So a host gets no more by more sessions.
//
// Thread-safety: belongs to the lane's reactor.
// Lifetime: its channels share it.
#pragma once

#include <memory>
#include <vector>

#include "target/block/arena.h"
#include "target/cache/work_share.h"

namespace wss::block {

// Of an initiator on a volume: an I_T_L nexus.
struct NexusShare {
    ShareRef buffers = ShareRef::make();
    se::WorkShareRef works = se::WorkShareRef::make();
};

class InitiatorShare {
  public:
    Share& all() noexcept { return *all_; }
    // Of commands that are no volume's.
    NexusShare& of_no_volume() noexcept { return of_no_volume_; }
    // Made when it is asked for first.
    NexusShare& of_volume(uint64_t lun) {
        if (by_lun_.size() <= lun) by_lun_.resize(lun + 1);
        if (by_lun_[lun] == nullptr) by_lun_[lun] = std::make_unique<NexusShare>();
        return *by_lun_[lun];
    }
    // The volume is removed. What is held of it still counts for the initiator.
    void forget(uint64_t lun) noexcept {
        if (lun < by_lun_.size()) by_lun_[lun].reset();
    }

  private:
    ShareRef all_ = ShareRef::make();
    NexusShare of_no_volume_;
    std::vector<std::unique_ptr<NexusShare>> by_lun_;
};

}  // namespace wss::block
