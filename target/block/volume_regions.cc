// SPDX-License-Identifier: Apache-2.0
#include "target/block/volume_regions.h"

namespace wss::block {

volume::VolumeSet::Extend VolumeRegions::factory(std::vector<fabric::Fabric*> fabrics) {
    return [fabrics](const volume::Volume& volume) -> Result<std::unique_ptr<volume::Extension>> {
        std::unique_ptr<VolumeRegions> made(new VolumeRegions(fabrics));
        if (!volume.memory().empty()) WSS_TRY(made->memory_grows(volume.memory()));
        return std::unique_ptr<volume::Extension>(std::move(made));
    };
}

Status VolumeRegions::memory_grows(std::span<std::byte> memory) {
    std::vector<std::unique_ptr<fabric::Region>> fresh;
    for (fabric::Fabric* fabric : fabrics_) {
        auto access =
            fabric->caps().read_sink_remote_write ? fabric::Access::kRemoteWrite : fabric::Access::kLocal;
        auto region = fabric->register_memory(memory, access);
        if (!region)
            return region.status().within(
                fmt::format("registering {} MiB of volume memory with {}; raise the limit of locked memory "
                            "(ulimit -l, LimitMEMLOCK=)",
                            memory.size() >> 20, fabric->caps().name));
        fresh.push_back(std::move(*region));
    }
    for (size_t i = 0; i < fresh.size(); ++i) {
        lkeys_[i].store(fresh[i]->lkey(), std::memory_order_release);
        regions_.push_back(std::move(fresh[i]));
    }
    return Status::ok();
}

}  // namespace wss::block
