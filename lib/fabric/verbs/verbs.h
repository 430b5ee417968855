// SPDX-License-Identifier: Apache-2.0
// The verbs fabric: RDMA devices through libibverbs and librdmacm. This header is all that open.cc sees of
// it, so that no third-party type leaves this folder.
//
// Files: handles (RAII of every verbs object) · address (names to socket addresses) · device (finds and
// describes the device) · region · poller (completion queue, event channels, deadlines) · negotiation (what a
// connection gets of what it wishes for) · connection (set-up and closing) · take_watch (ends one whose peer
// takes nothing) · listener (who wants to connect) · *_datapath (post and poll, nothing else).
//
// What differs from other fabrics: a region of this fabric cannot be revoked by a peer's kSendInvalidate
// (user memory registrations are not invalidatable; kernel peers' fast registrations are). Private data may
// arrive padded with zeros (the CM's messages have fixed sizes), so a reject whose data are all zero counts
// as one without data.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"

namespace wss::fabric::verbs {

// The fabric of the device that has `address`, or of the one that leads to it. May wait for name and address
// resolution (at most a few seconds).
Result<std::unique_ptr<Fabric>> open(const Address& address);

}  // namespace wss::fabric::verbs
