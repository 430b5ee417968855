// SPDX-License-Identifier: Apache-2.0
// HolderMark: the record that a client writes to the metadata of an image when it takes the lock. Its form is
// "SERIES TERM SINCE CLIENT", four hexadecimal numbers. See plugin/ownership.h.
//
// Anybody with write access to the image can change its metadata: a text of another form is not a mark.
// Parsed without librbd, so that it can be tested without a cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/io/ownership.h"

namespace wss::io {

struct HolderMark {
    Succession succession;
    uint64_t client = 0;  // the client's number in the cluster
    std::string text() const;
    // The mark of `client`, which shut out `former`; nobody else had the image in between (`former` 0: that
    // is not known). It continues the chain of the mark `found` if that is of `former`; else it begins a
    // chain. Without a mark `found` it begins the series `fresh`.
    static HolderMark after(const std::optional<HolderMark>& found, uint64_t former, uint64_t client,
                            uint64_t fresh) noexcept;
    bool operator==(const HolderMark&) const = default;
};

std::optional<HolderMark> parse_holder_mark(std::string_view text);

}  // namespace wss::io
