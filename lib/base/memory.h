// SPDX-License-Identifier: Apache-2.0
// The machine's memory.
#pragma once

#include <cstdint>

namespace wss {

// Bytes.
uint64_t physical_memory();

}  // namespace wss
