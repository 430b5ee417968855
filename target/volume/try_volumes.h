// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "target/volume/options.h"

namespace wss::volume {

// For a start, which ends when one of `volumes` cannot be opened: it would have taken the storage of those
// before it from owners that are alive, for nothing. Where it may do that, all that are there are looked for
// first. Storage that is elsewhere (rs:) is not. `others`: are opened by the same start, and do not end it.
Status try_volumes(const std::vector<VolumeOptions>& volumes, const std::vector<VolumeOptions>& others = {});

}  // namespace wss::volume
