// SPDX-License-Identifier: Apache-2.0
// Messages in hexadecimal digits, with optional blanks.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/wire/endian.h"

namespace wss::wire {

inline std::vector<std::byte> from_hex(std::string_view text) {
    std::string digits;
    for (char c : text)
        if (std::isxdigit(uint8_t(c))) digits += c;
    std::vector<std::byte> bytes;
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes.push_back(std::byte(std::stoul(digits.substr(i, 2), nullptr, 16)));
    return bytes;
}

// Returns "0a 0b 0c", which EXPECT_EQ prints when two messages differ.
inline std::string to_hex(Bytes bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (std::byte b : bytes) {
        if (!text.empty()) text += ' ';
        text += kDigits[std::to_integer<size_t>(b) >> 4];
        text += kDigits[std::to_integer<size_t>(b) & 0xf];
    }
    return text;
}

inline std::string spaced(std::string_view hex) {
    return to_hex(from_hex(hex));
}

}  // namespace wss::wire
