// SPDX-License-Identifier: Apache-2.0
// Directories whose entries survive a crash. Syncing a file does not sync its name: until the directory is
// synced too, a crash can undo the creation or renaming of an entry whose contents are on the medium.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <string>

#include "lib/base/status.h"

namespace wss {

// Syncs the directory that `path` is in, after `path` was created or renamed.
Status sync_folder_of(const std::string& path);

// Creates the directory if it does not exist, and makes sure that a crash does not undo this. Its parent must
// exist.
Status make_folder(const std::string& path);

}  // namespace wss
