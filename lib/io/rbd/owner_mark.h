// SPDX-License-Identifier: Apache-2.0
// OwnerMark: what an owner of an image leaves in its metadata: "NAME NUMBER", two numbers in hexadecimal
// digits. See plugin/ownership.h.
//
// Everybody who may write the image may write there what he likes: what is no such mark is nothing of ours.
// Read without librbd, so that it can be tested without a cluster.
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
