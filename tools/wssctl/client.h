// SPDX-License-Identifier: Apache-2.0
// One question to a target's control socket (target/control/server.h has the protocol).
#pragma once

#include "tools/wssctl/context.h"

namespace wss::wssctl {

// Bounded by the context's time-out. kUnavailable when nobody is there.
Result<Json> ask(const Context& context, const std::string& method, const Json& params = Json::object());

}  // namespace wss::wssctl
