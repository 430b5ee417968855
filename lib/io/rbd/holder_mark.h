// SPDX-License-Identifier: Apache-2.0
// HolderMark: what a client that takes the lock of an image leaves in its metadata: "CHAIN PLACE CLIENT",
// three numbers in hexadecimal digits. See plugin/ownership.h.
//
// Everybody who may write the image may write there what he likes: what is no such mark is nothing of ours.
// Read without librbd, so that it can be tested without a cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/io/ownership.h"

namespace wss::io {

struct HolderMark {
    Succession succession;
    uint64_t client = 0;  // its number in the cluster
    std::string text() const;
    // Of the client that shut out `former`, whose place nobody else had in between (0: that is not known). It
    // begins the chain `fresh` unless the mark, which it found, is of that client.
    static HolderMark after(const std::optional<HolderMark>& found, uint64_t former, uint64_t client,
                            uint64_t fresh) noexcept;
    bool operator==(const HolderMark&) const = default;
};

std::optional<HolderMark> parse_holder_mark(std::string_view text);

}  // namespace wss::io
