// SPDX-License-Identifier: Apache-2.0
// The state file: which volumes exist at run time and what identifies each volume to initiators.
//
// JSON, one object: {"format": "wss-target-state", "version": 1, "volumes": [...]}. It is replaced atomically
// (written beside, synced, renamed, folder synced): after a power cut there is the old or the new one. A file
// that cannot be understood is an error that says where; nothing overwrites it. Who reads or writes it, or a
// file beside it, has its lock (state_lock.h).
#pragma once

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "target/volume/options.h"
#include "target/volume/state_lock.h"

namespace wss::volume {

// Of a declared volume only its name and what follows the options matter: the rest is its configuration's.
struct StoredVolume {
    VolumeOptions options;
    Identity identity;
    uint64_t resized = 0;          // size given at run time; 0: never
    bool write_protected = false;  // made read-only at run time
    bool access_changed = false;  // at run time, to options.access, which counts for declared volumes as well
    bool limits_changed = false;  // … and the same with options.limits
    bool shrinking = false;       // to `resized`, and not known to be over
    uint64_t cut_from = 0;        // … with a backend of this size, which is to be cut
    std::string cut_ownership;    // … while nobody else has had it (io::Backend::ownership())
    bool unmade = false;          // never opened, or deleted: its storage may be created
    bool deleted = false;         // it was being deleted, and nothing but its identity is known
    bool operator==(const StoredVolume&) const = default;
};

// A file that does not exist holds no volumes.
Result<std::vector<StoredVolume>> read_state_file(const StateLock& state);
Status write_state_file(const StateLock& state, const std::vector<StoredVolume>& volumes);

// The file's text and back, for the two above and for tests.
std::string format_state(const std::vector<StoredVolume>& volumes);
Result<std::vector<StoredVolume>> parse_state(const std::string& text, const std::string& path);

}  // namespace wss::volume
