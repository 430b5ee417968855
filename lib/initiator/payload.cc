// SPDX-License-Identifier: Apache-2.0
// DataMemory: creation. payload_datapath.cc has the functions that each command calls.
#include "lib/initiator/payload.h"

#include <utility>

namespace wss::initiator {

Result<std::unique_ptr<DataMemory>> DataMemory::create(fabric::Fabric& fabric, const Options& options) {
    auto bounce = BouncePool::create(fabric, options.bounce_bytes);
    if (!bounce) return bounce.status();
    return std::unique_ptr<DataMemory>(new DataMemory(fabric, options, std::move(*bounce)));
}

}  // namespace wss::initiator
