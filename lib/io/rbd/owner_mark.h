// SPDX-License-Identifier: Apache-2.0
// OwnerMark: the record that an owner writes to the metadata of an image: "NAME NUMBER", two hexadecimal
// numbers. See plugin/ownership.h.
//
// Any client with write access to the image can change its metadata. Text in another form is not a mark.
// Parsed without librbd, so that it can be tested without a cluster.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace wss::io {

struct OwnerMark {
    std::string name, number;
    std::string text() const { return name + ' ' + number; }
    bool operator==(const OwnerMark&) const = default;
};

std::optional<OwnerMark> parse_owner_mark(std::string_view text);

}  // namespace wss::io
