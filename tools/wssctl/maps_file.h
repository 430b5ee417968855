// SPDX-License-Identifier: Apache-2.0
// /etc/wss/maps: the volumes that this machine maps at boot. One per line:
//
//     TARGET VOLUME [secret-file=FILE] [KEY=VALUE ...]
//
// separated by blanks. '#' starts a comment. Keys are those of /sys/class/wss/map.
#pragma once

#include "tools/wssctl/mapping.h"

namespace wss::wssctl {

struct MapsLine {
    size_t number;  // in the file, from 1
    Mapping mapping;
};

// Checks all lines first: a file with a mistake maps nothing. Duplicate lines are errors.
Result<std::vector<MapsLine>> read_maps(const std::string& path);

}  // namespace wss::wssctl
