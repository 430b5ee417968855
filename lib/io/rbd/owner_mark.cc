// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/owner_mark.h"

#include <algorithm>

namespace wss::io {

namespace {

constexpr size_t kDigitsMax = 32;

bool is_hexadecimal(std::string_view text) {
    return !text.empty() && text.size() <= kDigitsMax && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    });
}

}  // namespace

std::optional<OwnerMark> parse_owner_mark(std::string_view text) {
    const size_t space = text.find(' ');
    if (space == text.npos) return std::nullopt;
    const std::string_view name = text.substr(0, space), number = text.substr(space + 1);
    if (!is_hexadecimal(name) || !is_hexadecimal(number)) return std::nullopt;
    return OwnerMark{std::string(name), std::string(number)};
}

}  // namespace wss::io
