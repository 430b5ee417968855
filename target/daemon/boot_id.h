// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace wss::daemon {

// Which boot of this machine it is, never 0; 0 where Linux does not say.
inline uint32_t boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    if (!std::getline(file, id)) return 0;
    return static_cast<uint32_t>(std::hash<std::string>{}(id)) | 1;
}

}  // namespace wss::daemon
