// SPDX-License-Identifier: Apache-2.0
// Status as errno, for interfaces that use it (the C APIs).
#pragma once

#include <string_view>

#include "lib/base/status.h"

namespace wss {

// Returns the errno that the status carries, or else the closest errno for its code. Returns 0 if the status
// is ok.
int errno_of(const Status& status);

// Returns advice for the operator about a file that could not be written because of `error`, for example ";
// make room …". The advice is empty if the text of the errno suffices.
std::string_view advice_on_write(int error);

}  // namespace wss
