// SPDX-License-Identifier: Apache-2.0
// One request to a program's control socket (target/http/site.h has the API).
#pragma once

#include "tools/wssctl/context.h"

namespace wss::wssctl {

// A method that reads, "volume.list". Bounded by the context's time-out. kUnavailable when nobody is there.
Result<Json> ask(const Context& context, const std::string& method);
// ... and one that changes something.
Result<Json> request_change(const Context& context, const std::string& method, const Json& params);

}  // namespace wss::wssctl
