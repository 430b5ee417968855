// SPDX-License-Identifier: Apache-2.0
#include "lib/base/memory.h"

#include <unistd.h>

namespace wss {

uint64_t physical_memory() {
    return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace wss
