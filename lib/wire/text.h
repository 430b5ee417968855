// SPDX-License-Identifier: Apache-2.0
// Text from a peer, made fit to be shown on a terminal or in a log.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace wss::wire {

// Copies UTF-8 from `in` to `out` and returns the bytes written. Stops at a zero byte, and between two
// characters when `out` is full. Control characters (newline too: one message is one line), characters that
// turn the writing direction or hide themselves, and malformed sequences become '?'.
size_t copy_printable(std::string_view in, std::span<char> out);

}  // namespace wss::wire
