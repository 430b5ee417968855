// SPDX-License-Identifier: Apache-2.0
// The head of a request: its first line and headers. cpp-httplib skips lines that it cannot read and decodes
// values, so that it could differ from a proxy about where a request ends, and take a part of one client's
// request for the next request of another (request smuggling), or serve a path that the proxy does not know.
// It reads no head that is not in order.
//
// Thread-safety: a function.
#pragma once

#include <string_view>

#include "lib/base/status.h"

namespace wss::http {

constexpr size_t kHeadMax = 16 << 10;
constexpr size_t kLineMax = 8 << 10;  // with its end; the library refuses longer ones

// `head`: all up to the empty line that ends it, or the first kHeadMax bytes if there is none in them.
Status check_head(std::string_view head);

}  // namespace wss::http
