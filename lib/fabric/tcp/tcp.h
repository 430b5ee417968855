// SPDX-License-Identifier: Apache-2.0
// The tcp fabric: RDMA's semantics where there is no RDMA. One-sided operations travel as frames and are
// executed by the peer's progress thread, as iWARP's would be by its NIC.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"

namespace wss::fabric::tcp {

Result<std::unique_ptr<Fabric>> open();

}  // namespace wss::fabric::tcp
