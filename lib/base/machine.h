// SPDX-License-Identifier: Apache-2.0
// Processors and memory of this machine.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace wss {

// Reads a list of processors as the kernel writes it ("2,4-7"). Returns them in the given order. Fails with
// kInvalid if the text has another form, names a processor twice, or names one that this process may not use.
Result<std::vector<int>> parse_cpus(std::string_view text);

// Number of processors that this process may use. It is at least 1.
int usable_cpus();

// Makes the thread run only on processor `cpu`.
Status pin_thread(pthread_t thread, int cpu);

// Memory of this machine, in bytes.
uint64_t physical_memory();

}  // namespace wss
