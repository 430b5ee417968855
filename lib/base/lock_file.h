// SPDX-License-Identifier: Apache-2.0
// Files that exist to be locked (flock).
//
// Thread-safety: a function.
#pragma once

#include <string>

#include "lib/base/file.h"
#include "lib/base/status.h"

namespace wss {

// Opens the file, or makes it with mode 600. No link is followed, and the file is ours alone: whoever else
// can open it could lock it for ever (another user, a group, a holder of another name).
Result<Descriptor> open_lock_file(const std::string& file);

}  // namespace wss
