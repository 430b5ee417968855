// SPDX-License-Identifier: Apache-2.0
// Lists of processors, as the kernel writes them: "2,4-7".
#pragma once

#include <pthread.h>

#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace wss {

// Returns the processors in the given order. kInvalid: wrong form, a repeated processor, or one that this
// process may not use.
Result<std::vector<int>> parse_cpus(std::string_view text);

// Number of processors that this process may use; at least 1.
int usable_cpus();

// Makes the thread run on processor `cpu` only.
Status pin_thread(pthread_t thread, int cpu);

}  // namespace wss
