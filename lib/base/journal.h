// SPDX-License-Identifier: Apache-2.0
// Standard error of a service: the service manager connects it to the journal. The journal removes a prefix
// "<N>" from each line and stores it as the line's priority (sd-daemon(3)).
//
// Thread-safety: is_standard_error() may be called from any thread.
#pragma once

#include <string_view>

namespace wss::journal {

inline constexpr std::string_view kError = "<3>", kWarning = "<4>", kInfo = "<6>", kDebug = "<7>";

// True if JOURNAL_STREAM names the file of standard error. The presence of the variable proves nothing,
// because child processes inherit it even if their standard error goes elsewhere.
bool is_standard_error() noexcept;

}  // namespace wss::journal
