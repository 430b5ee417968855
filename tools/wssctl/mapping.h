// SPDX-License-Identifier: Apache-2.0
// One volume that the driver is to map, as `wssctl map` and a line of /etc/wss/maps describe it.
#pragma once

#include "tools/wssctl/driver.h"

namespace wss::wssctl {

struct Mapping {
    std::string target, volume, secret_file;
    std::vector<std::string> options;  // key=value, for the driver
};

// The line that /sys/class/wss/map takes; kInvalid for words that the driver would split.
Result<std::string> line_of(const Mapping& mapping);
// Has the driver map it. Returns when the disk exists, or with the option retry=on when the driver has begun
// to try.
Status request_map(const Context& context, const Mapping& mapping);
// Whether the driver's `target` and `volume` (of a disk) are those of `mapping`.
bool is_of(const Disk& disk, const Mapping& mapping);
bool is_of(const Pending& pending, const Mapping& mapping);

}  // namespace wss::wssctl
