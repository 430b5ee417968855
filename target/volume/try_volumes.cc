// SPDX-License-Identifier: Apache-2.0
#include "target/volume/try_volumes.h"

#include <algorithm>

#include "lib/io/backend.h"
#include "lib/io/specification.h"

namespace wss::volume {

static bool any_has_owner(const std::vector<VolumeOptions>& volumes) {
    return std::any_of(volumes.begin(), volumes.end(),
                       [](const auto& one) { return io::has_owner(one.backend); });
}

static Status try_volume(const VolumeOptions& volume, const TryOptions& how) {
    if (volume.backend.starts_with("rs:")) return Status::ok();
    return io::check_backend(volume.backend, {.size = volume.size,
                                              .create = volume.create,
                                              .read_only = volume.read_only,
                                              .grow = !how.have_size.contains(volume.name),
                                              .keeps_taken = how.keeps_taken})
        .within("volume " + volume.name);
}

Status try_volumes(const std::vector<VolumeOptions>& volumes, const std::vector<VolumeOptions>& others,
                   const TryOptions& how) {
    // With a single volume, no storage is taken unless the volume can be opened.
    if (volumes.size() + others.size() < 2) return Status::ok();
    if (!any_has_owner(volumes) && !any_has_owner(others)) return Status::ok();
    for (const VolumeOptions& volume : volumes) WSS_TRY(try_volume(volume, how));
    return Status::ok();
}

}  // namespace wss::volume
