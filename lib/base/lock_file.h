// SPDX-License-Identifier: Apache-2.0
// Files for locks (flock).
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <string>

#include "lib/base/file.h"
#include "lib/base/status.h"

namespace wss {

// Opens the file, or creates it with mode 600. Does not follow links. Fails if the file belongs to another
// user, grants permissions to others, or has a second hard link: another user could then open the file and
// lock it forever.
Result<Descriptor> open_lock_file(const std::string& file);

}  // namespace wss
