// SPDX-License-Identifier: Apache-2.0
// See text.h. The decoder follows Unicode's table 3-7 (well-formed UTF-8 byte sequences).
#include "lib/wire/text.h"

#include <cstdint>
#include <cstring>

namespace wss::wire {
namespace {

struct Character {
    uint32_t code = 0;
    size_t length = 1;
    bool well_formed = false;
};

uint8_t byte_at(std::string_view text, size_t index) {
    return uint8_t(text[index]);
}

// Returns the number of bytes that the first one announces, or 0 if it cannot begin a character.
size_t announced_length(uint8_t first) {
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return 2;
    if (first >= 0xe0 && first <= 0xef) return 3;
    if (first >= 0xf0 && first <= 0xf4) return 4;
    return 0;
}

Character decode(std::string_view text) {
    uint8_t first = byte_at(text, 0);
    size_t length = announced_length(first);
    if (length == 0 || length > text.size()) return {};
    if (length == 1) return {first, 1, true};
    uint32_t code = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((byte_at(text, i) & 0xc0) != 0x80) return {};
        code = code << 6 | (byte_at(text, i) & 0x3f);
    }
    bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    if (overlong || surrogate || code > 0x10ffff) return {};
    return {code, length, true};
}

bool is_printable(uint32_t code) {
    bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool direction = code == 0x61c || code == 0x200e || code == 0x200f ||
                     (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    bool hidden = code == 0xad || (code >= 0x200b && code <= 0x200d) || code == 0x2060 || code == 0xfeff;
    bool line_break = code == 0x2028 || code == 0x2029;
    bool tag = code >= 0xe0000 && code <= 0xe007f;
    return !(control || direction || hidden || line_break || tag);
}

}  // namespace

size_t copy_printable(std::string_view in, std::span<char> out) {
    size_t written = 0;
    while (!in.empty() && in[0] != '\0') {
        Character next = decode(in);
        bool keep = next.well_formed && is_printable(next.code);
        size_t needed = keep ? next.length : 1;
        if (needed > out.size() - written) break;
        if (keep)
            std::memcpy(out.data() + written, in.data(), needed);
        else
            out[written] = '?';
        written += needed;
        in.remove_prefix(next.length);
    }
    return written;
}

}  // namespace wss::wire
