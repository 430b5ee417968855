// SPDX-License-Identifier: Apache-2.0
// Folders whose entries survive a crash. Syncing a file does not sync its name: until its folder is synced
// too, a crash can undo the creation or the renaming of a file or folder whose contents are on the medium.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <string>

#include "lib/base/status.h"

namespace wss {

// Syncs the folder that `path` is in, after `path` was created or renamed.
Status sync_folder_of(const std::string& path);

// Creates the folder if it does not exist, and makes sure that a crash does not undo this. Its parent must
// exist.
Status make_folder(const std::string& path);

}  // namespace wss
