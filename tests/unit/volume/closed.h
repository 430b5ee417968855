// SPDX-License-Identifier: Apache-2.0
// Closes the volumes of a test whose commands have a short limit. On a busy machine, the threads that close
// them may need longer.
#pragma once

#include "target/volume/volume_set.h"

namespace wss::volume {

inline Status closed(VolumeSet& set) {
    Status status = set.close_all();
    for (int tries = 0; tries < 100 && status.code() == Code::kTimedOut; ++tries) status = set.close_all();
    return status;
}

}  // namespace wss::volume
