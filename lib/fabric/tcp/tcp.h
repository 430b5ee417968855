// SPDX-License-Identifier: Apache-2.0
// The tcp fabric: RDMA's semantics where there is no RDMA. One-sided operations travel as frames and are
// executed by the peer's progress thread, as iWARP's would be by its NIC. With a context it is the tls
// fabric: the same under TLS 1.3, at tls:// addresses and no others.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"
#include "lib/fabric/tls/context.h"

namespace wss::fabric::tcp {

Result<std::unique_ptr<Fabric>> open(std::shared_ptr<const tls::Context> context = nullptr);

}  // namespace wss::fabric::tcp
