// SPDX-License-Identifier: Apache-2.0
// VolumeRegions: the memory of a RAM volume, registered once with every fabric, so that data moves between it
// and an initiator without a buffer or a copy.
//
// Attached to each volume as its extension. Volumes without memory have an empty one.
//
// Thread-safety: lkey() may be called from any thread, the rest on the control thread.
// Lifetime: the fabrics outlive it. Regions of former sizes are kept until its end, because requests in
// flight may still use them.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "lib/fabric/fabric.h"
#include "target/volume/extension.h"
#include "target/volume/volume_set.h"

namespace wss::block {

constexpr size_t kFabricsMax = 8;  // a target opens one for each listen address

class VolumeRegions final : public volume::Extension {
  public:
    // For VolumeSet::Options::extend. `fabrics`: in the same order as in the Service.
    static volume::VolumeSet::Extend factory(std::vector<fabric::Fabric*> fabrics);

    Status memory_grows(std::span<std::byte> memory) override;
    uint32_t lkey(size_t fabric_index) const noexcept {
        return lkeys_[fabric_index].load(std::memory_order_acquire);
    }

  private:
    explicit VolumeRegions(std::vector<fabric::Fabric*> fabrics) : fabrics_(std::move(fabrics)) {}

    const std::vector<fabric::Fabric*> fabrics_;
    std::vector<std::unique_ptr<fabric::Region>> regions_;
    std::array<std::atomic<uint32_t>, kFabricsMax> lkeys_{};
};

}  // namespace wss::block
