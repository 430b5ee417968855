// SPDX-License-Identifier: Apache-2.0
// Opens the fabric that an address needs: the only place that knows every implementation.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"

namespace wss::fabric {

// `address` is where one will listen or connect: for verbs it selects the RDMA device. Fails with a text that
// says what is missing (no RDMA device, no route, no support in this build).
Result<std::unique_ptr<Fabric>> open(const Address& address);

}  // namespace wss::fabric
