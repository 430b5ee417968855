// SPDX-License-Identifier: Apache-2.0
// Files for locks (flock).
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <string>

#include "lib/base/file.h"
#include "lib/base/status.h"

namespace wss {

// Opens the file, or creates it with mode 600. Does not follow links. Fails if another user, a group, or a
// process with another link could open the file, because it could then lock the file forever.
Result<Descriptor> open_lock_file(const std::string& file);

}  // namespace wss
