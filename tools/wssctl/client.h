// SPDX-License-Identifier: Apache-2.0
// One request to a program's control socket (target/http/site.h has the API).
#pragma once

#include "tools/wssctl/context.h"

namespace wss::wssctl {

// Calls a method that reads, such as "volume.list". It waits at most for the context's timeout. Fails with
// kUnavailable if no program listens.
Result<Json> ask(const Context& context, const std::string& method);
// Calls a method that changes something.
Result<Json> request_change(const Context& context, const std::string& method, const Json& params);

}  // namespace wss::wssctl
