// SPDX-License-Identifier: Apache-2.0
// Mapping: one volume that the driver is to map, from `wssctl map` or from a line of /etc/wss/maps.
#pragma once

#include "lib/base/clock.h"
#include "tools/wssctl/driver.h"

namespace wss::wssctl {

struct Mapping {
    std::string target, volume, secret_file;
    std::vector<std::string> options;  // key=value, for the driver
    std::vector<std::string>
        addresses;  // numeric addresses of `target`, in the driver's form; set by resolve()
};

// Fails with kInvalid if the target is not an address, or if the driver would split a word.
Status check(const Mapping& mapping);
// Resolves the target's host name, for at most `timeout`.
Status resolve(Mapping& mapping, Nanoseconds timeout);
// Makes the driver map the volume. REQUIRES: `mapping` is resolved. Tries one address after another. Returns
// when the disk exists. With the option retry=on it also returns when the driver keeps trying. If no address
// answers now, the driver tries the first one.
Status request_map(const Context& context, const Mapping& mapping);
// Returns the same text for all spellings of an address: with or without scheme and port, with IPv6 shortened
// or not.
std::string canonical_target(const std::string& target);
// Whether both mean the same volume of the same target, in any spelling.
bool is_same(const Mapping& one, const Mapping& other);
// Whether the disk, or the pending map, belongs to `mapping`. REQUIRES: `mapping` is resolved.
bool is_of(const Disk& disk, const Mapping& mapping);
bool is_of(const Pending& pending, const Mapping& mapping);

}  // namespace wss::wssctl
