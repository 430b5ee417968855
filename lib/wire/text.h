// SPDX-License-Identifier: Apache-2.0
// Makes text from a peer safe for terminals and logs.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace wss::wire {

// Copies UTF-8 from `in` to `out` and returns the number of bytes written. Stops at a zero byte, or before
// the first character for which `out` has no room. Replaces with '?': control characters (newlines too, as
// one message is one line), characters that change the writing direction or are invisible, and malformed
// sequences.
size_t copy_printable(std::string_view in, std::span<char> out);

}  // namespace wss::wire
