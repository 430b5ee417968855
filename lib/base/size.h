// SPDX-License-Identifier: Apache-2.0
// Sizes in the form that people write: "64M", "1GiB", "4096". The units are binary: K, M, G, T, P with or
// without "iB" or "B", in upper or lower case.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace wss {

Result<uint64_t> parse_size(std::string_view text);
// The exact size, in the largest unit of which it is a multiple ("64M"), or else in bytes ("1000000").
// parse_size() returns the same number.
std::string format_size(uint64_t bytes);
// Formats a size for tables, with three digits and a unit: "1.50 GiB".
std::string readable_size(uint64_t bytes);

}  // namespace wss
