// SPDX-License-Identifier: Apache-2.0
#include "lib/base/paths.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>

namespace wss {

std::string default_control_path() {
    if (geteuid() == 0) return "/run/wss/target.sock";
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && *runtime == '/') return fmt::format("{}/wss-target.sock", runtime);
    return fmt::format("/tmp/wss-target-{}.sock", geteuid());
}

}  // namespace wss
