// SPDX-License-Identifier: Apache-2.0
// Encodes the replies of OSD classes that lib/io/rbd/encoding.h decodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace wss::io::test {

inline std::string number(uint64_t value, size_t bytes) {
    std::string out;
    for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> 8 * i & 0xff));
    return out;
}
inline std::string text(const std::string& value) {
    return number(value.size(), 4) + value;
}
inline std::string structure(const std::string& inside, char version = 1, char readable_by = 1) {
    return std::string{version, readable_by} + number(inside.size(), 4) + inside;
}

}  // namespace wss::io::test
