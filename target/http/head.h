// SPDX-License-Identifier: Apache-2.0
// Checks the head of a request: its first line and headers. cpp-httplib skips lines that it cannot parse and
// decodes values. So it could disagree with a proxy about the end of a request, and mistake a part of one
// client's request for another client's next request (request smuggling). It could also serve a path that the
// proxy does not allow. Therefore it gets only heads that pass check_head().
//
// Thread-safety: check_head() is a pure function.
#pragma once

#include <string_view>

#include "lib/base/status.h"

namespace wss::http {

constexpr size_t kHeadMax = 16 << 10;
constexpr size_t kLineMax = 8 << 10;  // includes the line end; the library refuses longer lines

// `head`: all bytes up to and including the empty line, or the first kHeadMax bytes if they contain none.
Status check_head(std::string_view head);

}  // namespace wss::http
