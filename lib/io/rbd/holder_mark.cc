// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/holder_mark.h"

#include <fmt/format.h>

#include <charconv>

namespace wss::io {

namespace {

// Takes a hexadecimal number from the start of the text. 0 is not valid.
std::optional<uint64_t> take_number(std::string_view& text) {
    uint64_t number = 0;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
    if (wrong != std::errc() || number == 0) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return number;
}

bool take_space(std::string_view& text) {
    if (!text.starts_with(' ')) return false;
    text.remove_prefix(1);
    return true;
}

}  // namespace

std::string HolderMark::text() const {
    return fmt::format("{:x} {:x} {:x}", succession.chain, succession.place, client);
}

HolderMark HolderMark::after(const std::optional<HolderMark>& found, uint64_t former, uint64_t client,
                             uint64_t fresh) noexcept {
    const bool follows =
        found && former != 0 && found->client == former && found->succession.place < UINT64_MAX;
    if (!follows) return {.succession = {.chain = fresh, .place = 1}, .client = client};
    return {.succession = {.chain = found->succession.chain, .place = found->succession.place + 1},
            .client = client};
}

std::optional<HolderMark> parse_holder_mark(std::string_view text) {
    const auto chain = take_number(text);
    if (!chain || !take_space(text)) return std::nullopt;
    const auto place = take_number(text);
    if (!place || !take_space(text)) return std::nullopt;
    const auto client = take_number(text);
    if (!client || !text.empty()) return std::nullopt;
    return HolderMark{.succession = {.chain = *chain, .place = *place}, .client = *client};
}

}  // namespace wss::io
