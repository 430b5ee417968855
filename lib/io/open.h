// SPDX-License-Identifier: Apache-2.0
// What a specification of a backend says before it is opened.
#pragma once

#include <string_view>

namespace wss::io {

// To open it may take the storage from an owner that is alive, and would lose it (steal=true).
bool may_take_storage(std::string_view specification);

}  // namespace wss::io
