// SPDX-License-Identifier: Apache-2.0
// "Did you mean ...": the known word closest to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace wss {

// Returns ", did you mean 'X'?" or, if no word is close, "; known: A, B, C". The caller appends it to an
// error.
std::string suggestion(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace wss
