// SPDX-License-Identifier: Apache-2.0
// The state file: the volumes that were created at run time, and the identity of every volume.
//
// JSON, one object: {"format": "wss-target-state", "version": 1, "volumes": [...]}. It is replaced atomically
// (temporary file, fsync, rename, fsync of the folder): after a power cut the old or the new version exists.
// A file that cannot be parsed causes an error, and is never overwritten. Code that reads or writes it, or a
// file beside it, holds its lock (state_lock.h).
#pragma once

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "target/volume/options.h"
#include "target/volume/recorded_sizes.h"
#include "target/volume/state_lock.h"

namespace wss::volume {

// A declared volume takes its options from the configuration. Only the name in `options` is used here, and
// the access and limits that were changed at run time.
struct StoredVolume {
    VolumeOptions options;
    Identity identity;
    RecordedSizes sizes;
    bool write_protected = false;  // made read-only at run time
    bool access_changed = false;   // at run time, to options.access; declared volumes included
    bool limits_changed = false;   // at run time, to options.limits; declared volumes included
    bool unmade = false;           // never opened, or deleted: its storage may be created
    bool deleted = false;          // its deletion is not complete; only name and identity are known
    bool operator==(const StoredVolume&) const = default;
};

// A missing file holds no volumes.
Result<std::vector<StoredVolume>> read_state_file(const StateLock& state);
Status write_state_file(const StateLock& state, const std::vector<StoredVolume>& volumes);

// Convert to the file's text and back, for the two functions above and for tests.
std::string format_state(const std::vector<StoredVolume>& volumes);
Result<std::vector<StoredVolume>> parse_state(const std::string& text, const std::string& path);

}  // namespace wss::volume
