// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <string>

namespace wss::daemon {

// Used as a salt: identities differ between hosts and stay the same on one host.
inline std::string machine_id() {
    std::ifstream file("/etc/machine-id");
    std::string id;
    std::getline(file, id);
    return id;
}

}  // namespace wss::daemon
