// SPDX-License-Identifier: Apache-2.0
#include "tools/ycsb/properties.h"

#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>

namespace wss::ycsb {

namespace {

constexpr std::string_view kBlank = " \t\f";
constexpr size_t kFileMax = 1 << 20;

std::string_view without_blanks_before(std::string_view text) {
    size_t first = text.find_first_not_of(kBlank);
    return first == text.npos ? std::string_view() : text.substr(first);
}

std::string_view without_blanks(std::string_view text) {
    text = without_blanks_before(text);
    size_t last = text.find_last_not_of(" \t\f\r");
    return last == text.npos ? std::string_view() : text.substr(0, last + 1);
}

// Returns one logical line. It consists of physical lines, each of which but the last ends with an odd number
// of backslashes.
std::string next_line(std::string_view& text) {
    std::string line;
    for (bool more = true; more && !text.empty();) {
        size_t end = std::min(text.find('\n'), text.size());
        std::string_view piece = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (piece.ends_with('\r')) piece.remove_suffix(1);
        if (!line.empty()) piece = without_blanks_before(piece);
        size_t slashes = 0;
        while (slashes < piece.size() && piece[piece.size() - 1 - slashes] == '\\') ++slashes;
        bool comment = line.empty() && without_blanks_before(piece).find_first_of("#!") == 0;
        more = slashes % 2 == 1 && !comment;
        line += more ? piece.substr(0, piece.size() - 1) : piece;
    }
    return line;
}

void append_utf8(std::string& out, uint32_t character) {
    if (character < 0x80) {
        out += static_cast<char>(character);
    } else if (character < 0x800) {
        out += static_cast<char>(0xc0 | character >> 6);
        out += static_cast<char>(0x80 | (character & 0x3f));
    } else {
        out += static_cast<char>(0xe0 | character >> 12);
        out += static_cast<char>(0x80 | (character >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (character & 0x3f));
    }
}

// Converts four hexadecimal digits to a character.
Result<uint32_t> unicode(std::string_view digits) {
    uint32_t character = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), character, 16);
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4)
        return failure(Code::kInvalid, "\\u needs four hexadecimal digits, not '{}'", digits);
    return character;
}

// Reads up to the first unescaped character of `stop`, which stays in `line`.
Status unescape(std::string_view& line, std::string_view stop, std::string& out) {
    while (!line.empty() && stop.find(line[0]) == stop.npos) {
        char letter = line[0];
        line.remove_prefix(1);
        if (letter != '\\' || line.empty()) {
            out += letter;
            continue;
        }
        char escaped = line[0];
        line.remove_prefix(1);
        constexpr std::string_view kNames = "tnrf", kCharacters = "\t\n\r\f";
        if (escaped == 'u') {
            auto character = unicode(line.substr(0, 4));
            if (!character) return character.status();
            append_utf8(out, *character);
            line.remove_prefix(4);
        } else {
            size_t known = kNames.find(escaped);
            out += known == kNames.npos ? escaped : kCharacters[known];
        }
    }
    return Status::ok();
}

Status bad_value(const std::string& key, const std::string& value, std::string_view wanted) {
    return failure(Code::kInvalid, "property {}: '{}' is not a {}", key, value, wanted);
}

}  // namespace

Status Properties::read_text(std::string_view text, const std::string& name) {
    while (!text.empty()) {
        std::string whole = next_line(text);
        std::string_view line = without_blanks_before(whole);
        if (line.empty() || line[0] == '#' || line[0] == '!') continue;
        std::string key, value;
        if (Status read = unescape(line, "=: \t\f", key); !read) return read.within(name);
        line = without_blanks_before(line);
        if (!line.empty() && (line[0] == '=' || line[0] == ':')) line = without_blanks_before(line.substr(1));
        if (Status read = unescape(line, "", value); !read) return read.within(name);
        values_[key] = value;
    }
    return Status::ok();
}

Status Properties::read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return Status::from_errno(errno, path);
    std::string text(kFileMax + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    if (text.size() > kFileMax)
        return failure(Code::kInvalid, "{}: larger than {} bytes: not a property file", path, kFileMax);
    return read_text(text, path);
}

Status Properties::set(std::string_view assignment) {
    size_t equals = assignment.find('=');
    if (equals == assignment.npos || equals == 0)
        return failure(Code::kInvalid, "property '{}': write it as NAME=VALUE", assignment);
    values_[std::string(without_blanks(assignment.substr(0, equals)))] =
        without_blanks(assignment.substr(equals + 1));
    return Status::ok();
}

std::string Properties::text(const std::string& key, const std::string& otherwise) const {
    auto found = values_.find(key);
    return found == values_.end() ? otherwise : std::string(without_blanks(found->second));
}

Result<uint64_t> Properties::number(const std::string& key, uint64_t otherwise) const {
    if (!has(key)) return otherwise;
    std::string value = text(key, "");
    uint64_t parsed = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc() || end != value.data() + value.size() || value.empty())
        return bad_value(key, value, "whole number");
    return parsed;
}

Result<double> Properties::real(const std::string& key, double otherwise) const {
    if (!has(key)) return otherwise;
    std::string value = text(key, "");
    double parsed = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc() || end != value.data() + value.size() || value.empty() || !std::isfinite(parsed))
        return bad_value(key, value, "number");
    return parsed;
}

Result<bool> Properties::flag(const std::string& key, bool otherwise) const {
    if (!has(key)) return otherwise;
    std::string value = text(key, "");
    if (value != "true" && value != "false") return bad_value(key, value, "boolean: true or false");
    return value == "true";
}

}  // namespace wss::ycsb
