// SPDX-License-Identifier: Apache-2.0
// Identities of this machine.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace wss::daemon {

// Identifies the current boot of this machine. The id is odd, and therefore never 0. Returns 0 if Linux does
// not provide a boot id.
inline uint32_t boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    if (!std::getline(file, id)) return 0;
    return static_cast<uint32_t>(std::hash<std::string>{}(id)) | 1;
}

// Used as a salt, so that identities differ between hosts and stay the same on one host.
inline std::string machine_id() {
    std::ifstream file("/etc/machine-id");
    std::string id;
    std::getline(file, id);
    return id;
}

}  // namespace wss::daemon
