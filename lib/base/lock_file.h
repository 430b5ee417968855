// SPDX-License-Identifier: Apache-2.0
// Files for locks (flock).
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <string>

#include "lib/base/file.h"
#include "lib/base/status.h"

namespace wss {

// Opens the file, or creates it with mode 600. Does not follow links. Fails if anyone else can open the file
// (another user, a group, a process with another link to it), because that process could lock it for ever.
Result<Descriptor> open_lock_file(const std::string& file);

}  // namespace wss
