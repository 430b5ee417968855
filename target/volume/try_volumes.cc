// SPDX-License-Identifier: Apache-2.0
#include "target/volume/try_volumes.h"

#include <algorithm>

#include "lib/io/open.h"

namespace wss::volume {

static Status try_volume(const VolumeOptions& volume) {
    if (volume.create || volume.backend.starts_with("rs:")) return Status::ok();
    return io::try_backend(volume.backend).within("volume " + volume.name);
}

Status try_volumes(const std::vector<VolumeOptions>& volumes) {
    const bool takes = std::any_of(volumes.begin(), volumes.end(),
                                   [](const auto& one) { return io::may_take_storage(one.backend); });
    if (!takes) return Status::ok();
    for (const VolumeOptions& volume : volumes) WSS_TRY(try_volume(volume));
    return Status::ok();
}

}  // namespace wss::volume
