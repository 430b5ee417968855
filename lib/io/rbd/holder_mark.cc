// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/holder_mark.h"

#include <fmt/format.h>

#include <charconv>

namespace wss::io {

namespace {

constexpr std::string_view kReleased = " released";

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
    return fmt::format("{:x} {:x} {:x} {:x}{}", succession.series, succession.term, succession.since, client,
                       released ? kReleased : "");
}

HolderMark HolderMark::after(const std::optional<HolderMark>& found, const Taking& taking, uint64_t client,
                             uint64_t fresh) noexcept {
    if (!found || found->succession.term == UINT64_MAX)
        return {.succession = {.series = fresh, .term = 1, .since = 1}, .client = client};
    const uint64_t term = found->succession.term + 1;
    const bool was_released = found->released && taking.seen.value_or(found->client) == found->client;
    const bool follows = taking.was_free ? was_released : found->client == taking.former;
    return {.succession = {.series = found->succession.series,
                           .term = term,
                           .since = follows ? found->succession.since : term},
            .client = client};
}

std::optional<HolderMark> parse_holder_mark(std::string_view text) {
    const auto series = take_number(text);
    if (!series || !take_space(text)) return std::nullopt;
    const auto term = take_number(text);
    if (!term || !take_space(text)) return std::nullopt;
    const auto since = take_number(text);
    if (!since || *since > *term || !take_space(text)) return std::nullopt;
    const auto client = take_number(text);
    if (!client || (!text.empty() && text != kReleased)) return std::nullopt;
    return HolderMark{.succession = {.series = *series, .term = *term, .since = *since},
                      .client = *client,
                      .released = !text.empty()};
}

}  // namespace wss::io
