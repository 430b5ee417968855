// SPDX-License-Identifier: Apache-2.0
// Lists of processors, as the kernel writes them: "2,4-7".
#pragma once

#include <pthread.h>

#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace wss {

// In the order given. kInvalid: not of that form, one twice, or one that this process may not use.
Result<std::vector<int>> parse_cpus(std::string_view text);

// How many processors this process may use; at least 1.
int usable_cpus();

// The thread runs there and nowhere else.
Status pin_thread(pthread_t thread, int cpu);

}  // namespace wss
