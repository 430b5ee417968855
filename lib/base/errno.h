// SPDX-License-Identifier: Apache-2.0
// Status as errno, for interfaces that speak it (the C APIs).
#pragma once

#include "lib/base/status.h"

namespace wss {

// The errno that the status carries, else the one nearest to its code; 0 for ok.
int errno_of(const Status& status);

}  // namespace wss
