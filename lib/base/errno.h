// SPDX-License-Identifier: Apache-2.0
// Status as errno, for interfaces that speak it (the C APIs).
#pragma once

#include <string_view>

#include "lib/base/status.h"

namespace wss {

// The errno that the status carries, else the one nearest to its code; 0 for ok.
int errno_of(const Status& status);

// What the operator can do where a file could not be written for this reason: "; make room …". Empty where
// the errno's own words suffice.
std::string_view advice_on_write(int error);

}  // namespace wss
