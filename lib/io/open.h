// SPDX-License-Identifier: Apache-2.0
// What a specification of a backend says before it is opened.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace wss::io {

// To open it may take the storage from an owner that is alive, and would lose it (steal=true).
bool may_take_storage(std::string_view specification);

// Whether there is something to open: opens it for reading, which takes nothing, and closes it. What is made
// by the opening (ram:) is there.
Status try_backend(const std::string& specification);

}  // namespace wss::io
