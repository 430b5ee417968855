// SPDX-License-Identifier: Apache-2.0
#include "target/http/head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace wss::http {

namespace {

// std::isalnum() and the like depend on the locale.
constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
constexpr char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
// The library takes a number that does not fit for the largest one that does.
bool is_length(std::string_view text) {
    uint64_t length = 0;
    const char* const end = text.data() + text.size();
    return std::ranges::all_of(text, is_digit) &&
           std::from_chars(text.data(), end, length) == std::from_chars_result{end, {}};
}
bool is_control(char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f;
}
bool may_name(char c) {
    constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || kOthers.find(c) != std::string_view::npos;
}
bool may_be_in_path(char c) {
    constexpr std::string_view kOthers = "-._/";
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || kOthers.find(c) != std::string_view::npos;
}
bool equal(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}
std::string_view trim(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Headers that determine the host and the end of the body: a request has at most one of each.
class SingleHeaders {
  public:
    Status note(std::string_view name, std::string_view value) {
        for (Single& single : singles_) {
            if (!equal(single.name, name)) continue;
            if (single.seen) return failure(Code::kInvalid, "the request has two headers '{}'", single.name);
            single.seen = true;
        }
        if (equal(name, "Content-Length") && !is_length(value))
            return failure(Code::kInvalid, "Content-Length is not a number below 2^64");
        if (equal(name, "Host") && value.empty()) return failure(Code::kInvalid, "Host is empty");
        return Status::ok();
    }

  private:
    struct Single {
        std::string_view name;
        bool seen = false;
    };
    std::array<Single, 3> singles_{{{"Host"}, {"Content-Length"}, {"Transfer-Encoding"}}};
};

// Served paths need no encoding, so encoded ones are refused. The library would decode a path after a proxy
// has compared its encoded form, and so serve a path that the proxy forbids.
Status check_path(std::string_view first_line) {
    const size_t space = first_line.find(' ');
    std::string_view path = space == std::string_view::npos ? "" : first_line.substr(space + 1);
    path = path.substr(0, path.find_first_of(" ?"));
    if (path.starts_with('/') && std::ranges::all_of(path, may_be_in_path)) return Status::ok();
    return failure(Code::kInvalid,
                   "a path may have only letters, digits, '-', '.', '_' and '/': write /api/v1/volume/list");
}

}  // namespace

Status check_head(std::string_view head) {
    constexpr std::string_view kLineEnd = "\r\n";
    if (!head.ends_with("\n\r\n"))
        return failure(Code::kInvalid, "a request may have at most {} bytes before its body", kHeadMax);
    SingleHeaders singles;
    for (bool first = true;; first = false) {
        const std::string_view line = head.substr(0, head.find(kLineEnd));
        if (line.size() + kLineEnd.size() > kLineMax)
            return failure(Code::kInvalid, "a line of a request may have at most {} bytes before its body",
                           kLineMax);
        head.remove_prefix(line.size() + kLineEnd.size());
        if (std::ranges::any_of(line, is_control))
            return failure(Code::kInvalid, "the request has a control character before its body");
        if (head.empty()) return Status::ok();
        if (first) {
            WSS_TRY(check_path(line));
            continue;
        }
        const size_t colon = line.find(':');
        const std::string_view name = line.substr(0, colon);
        if (colon == std::string_view::npos || name.empty() || !std::ranges::all_of(name, may_name))
            return failure(Code::kInvalid, "a header of the request is not NAME: VALUE");
        WSS_TRY(singles.note(name, trim(line.substr(colon + 1))));
    }
}

}  // namespace wss::http
