// SPDX-License-Identifier: Apache-2.0
// What the control socket tells of sessions: session.list, and the section "block" of stats.
#pragma once

#include "target/block/service.h"
#include "target/control/methods.h"

namespace wss::daemon {

// `service` outlives the control server; its reactors turn while that runs.
void add_session_methods(control::Methods& methods, block::Service& service);

}  // namespace wss::daemon
