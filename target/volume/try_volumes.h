// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "target/volume/options.h"

namespace wss::volume {

// Checks the existing storage of `volumes` before a start that may take storage from another owner. A start
// fails when one of `volumes` cannot be opened. Without this check, a failing start could already have taken
// the storage of earlier ones from their owners. The check also waits for dead clients of that storage: an
// owner is shut out only when nothing delays the rest of the start. Storage on another node (rs:) is not
// checked. The same start also opens `others`, and does not fail if one of them cannot be opened.
struct TryOptions {
    bool keeps_taken = false;         // see OpenOptions
    std::set<std::string> have_size;  // names of volumes whose storage must have their size already
};
Status try_volumes(const std::vector<VolumeOptions>& volumes, const std::vector<VolumeOptions>& others = {},
                   const TryOptions& how = {});

}  // namespace wss::volume
