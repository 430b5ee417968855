// SPDX-License-Identifier: Apache-2.0
// Region: memory pinned and registered with the device.
//
// Thread-safety: regions may be created and destroyed on any thread. Destroying waits for the device. No
// remote access succeeds afterwards.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"
#include "lib/fabric/verbs/device.h"

namespace wss::fabric::verbs {

// Registers `memory` of the caller.
Result<std::unique_ptr<Region>> register_memory(std::shared_ptr<Device> device, std::span<std::byte> memory,
                                                Access access);
// Maps and registers `bytes` of zeroed memory, with huge pages where available.
Result<std::unique_ptr<Region>> allocate(std::shared_ptr<Device> device, size_t bytes, Access access);

}  // namespace wss::fabric::verbs
