// SPDX-License-Identifier: Apache-2.0
// One volume that the driver is to map, as `wssctl map` and a line of /etc/wss/maps describe it.
#pragma once

#include "lib/base/clock.h"
#include "tools/wssctl/driver.h"

namespace wss::wssctl {

struct Mapping {
    std::string target, volume, secret_file;
    std::vector<std::string> options;  // key=value, for the driver
    std::vector<std::string>
        addresses;  // of target, in digits, as the driver takes and shows them: resolve()
};

// kInvalid for a target that is no address, and for words that the driver would split.
Status check(const Mapping& mapping);
// Looks the target's host up, for `timeout` at most.
Status resolve(Mapping& mapping, Nanoseconds timeout);
// Has the driver map it; `mapping` is resolved. Tries one address after the other. Returns when the disk
// exists, or with the option retry=on when the driver has begun to try (the first, if none answers now).
Status request_map(const Context& context, const Mapping& mapping);
// One text for all spellings of an address: with or without scheme and port, IPv6 shortened or not.
std::string canonical_target(const std::string& target);
// Whether both name the same volume of the same target, however they are spelled.
bool is_same(const Mapping& one, const Mapping& other);
// Whether the driver's `target` and `volume` (of a disk) are those of `mapping`, which is resolved.
bool is_of(const Disk& disk, const Mapping& mapping);
bool is_of(const Pending& pending, const Mapping& mapping);

}  // namespace wss::wssctl
