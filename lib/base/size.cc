// SPDX-License-Identifier: Apache-2.0
#include "lib/base/size.h"

#include <charconv>

namespace wss {

constexpr std::string_view kUnits = "KMGTP";

// Returns the power of 1024 for `suffix`, or -1 for an unknown unit.
static int exponent_of(std::string_view suffix) {
    if (suffix.empty() || suffix == "B" || suffix == "b") return 0;
    size_t index = kUnits.find(static_cast<char>(suffix[0] & ~0x20));
    if (index == std::string_view::npos) return -1;
    std::string_view rest = suffix.substr(1);
    bool known = rest.empty() || rest == "B" || rest == "b" || rest == "iB" || rest == "ib";
    return known ? static_cast<int>(index) + 1 : -1;
}

Result<uint64_t> parse_size(std::string_view text) {
    uint64_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc::result_out_of_range)
        return failure(Code::kInvalid, "size '{}' is too large: it must be less than 2^63 bytes", text);
    if (error != std::errc())
        return failure(Code::kInvalid,
                       "'{}' is not a size: write a number and K, M, G, T or P, for example 64M", text);
    int exponent = exponent_of(text.substr(static_cast<size_t>(end - text.data())));
    if (exponent < 0)
        return failure(Code::kInvalid,
                       "'{}' is not a size: the unit is one of K, M, G, T, P (for example 64M)", text);
    int shift = 10 * exponent;
    // The kernel's file offsets end at 2^63 - 1.
    if (number > (static_cast<uint64_t>(INT64_MAX) >> shift))
        return failure(Code::kInvalid, "size '{}' is too large: it must be less than 2^63 bytes", text);
    return number << shift;
}

std::string format_size(uint64_t bytes) {
    size_t unit = 0;
    while (bytes != 0 && bytes % 1024 == 0 && unit < kUnits.size()) {
        bytes /= 1024;
        ++unit;
    }
    return unit == 0 ? fmt::format("{}", bytes) : fmt::format("{}{}", bytes, kUnits[unit - 1]);
}

std::string readable_size(uint64_t bytes) {
    if (bytes < 1024) return fmt::format("{} B", bytes);
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1000 && unit < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    int digits = value < 10 ? 2 : value < 100 ? 1 : 0;
    return fmt::format("{:.{}f} {}iB", value, digits, kUnits[unit - 1]);
}

}  // namespace wss
