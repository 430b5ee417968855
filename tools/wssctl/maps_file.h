// SPDX-License-Identifier: Apache-2.0
// /etc/wss/maps: the volumes that this machine maps at boot. One per line:
//
//     TARGET VOLUME [secret-file=FILE] [KEY=VALUE ...]
//
// The words of a line are separated by blanks. '#' starts a comment. The keys are those of
// /sys/class/wss/map.
#pragma once

#include "tools/wssctl/mapping.h"

namespace wss::wssctl {

struct MapsLine {
    size_t number;  // line number in the file, from 1
    Mapping mapping;
};

// Reads the file. All lines are checked first, so a file with a mistake maps nothing. Duplicate lines are
// errors.
Result<std::vector<MapsLine>> read_maps(const std::string& path);

}  // namespace wss::wssctl
