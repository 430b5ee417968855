// SPDX-License-Identifier: Apache-2.0
// The verbs fabric: RDMA devices through libibverbs and librdmacm. Of its headers, open.cc includes this one,
// connection.h and context.h.
//
// Files: handles (RAII of every verbs object) · context (one device of the process) · device (a fabric's use
// of it) · devices (finds them, registers regions) · region · poller (event channels, deadlines) ·
// completion_queues · tag (layout of wr_id) · negotiation (limits of a connection) · connection (setup) ·
// connection_close · take_watch (detects a peer that accepts nothing) · listener (connect requests) ·
// *_datapath (post and poll, nothing else).
//
// Differences from other fabrics: a peer's kSendInvalidate cannot revoke a region of this fabric, because
// registrations of user memory cannot be invalidated. Fast registrations of kernel peers can. Private data
// may arrive padded with zeros (messages of the CM have fixed sizes), so a reject with only zeros counts as
// one without data.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"

namespace wss::fabric::verbs {

// Opens the fabric of the device that has `address`, or a route to it. For 0.0.0.0 and [::], opens that of
// all devices. May block: at most 5 s for the resolution of the name, and 3 s for each of its addresses.
Result<std::unique_ptr<Fabric>> open(const Address& address);

}  // namespace wss::fabric::verbs
