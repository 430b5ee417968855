// SPDX-License-Identifier: Apache-2.0
// The tcp fabric: RDMA's semantics without RDMA hardware. One-sided operations travel as frames, which the
// peer's poller executes as an iWARP NIC would. With a context it is the tls fabric: the same under TLS 1.3,
// only for tls:// addresses.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"
#include "lib/fabric/tls/context.h"

namespace wss::fabric::tcp {

Result<std::unique_ptr<Fabric>> open(std::shared_ptr<const tls::Context> context = nullptr);

}  // namespace wss::fabric::tcp
