// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "target/volume/options.h"

namespace wss::volume {

// For a start, which ends when one of its volumes cannot be opened: those before it would have taken their
// storage from owners that are alive, for nothing. Where one of them may do that, all that are there are
// opened for reading first, and closed. Storage that is elsewhere (rs:) is not.
Status try_volumes(const std::vector<VolumeOptions>& volumes);

}  // namespace wss::volume
