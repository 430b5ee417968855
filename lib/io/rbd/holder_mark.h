// SPDX-License-Identifier: Apache-2.0
// HolderMark: the record that a client writes to the metadata of an image when it takes the lock, and at an
// orderly release of the lock. Its form is "SERIES TERM SINCE CLIENT", four hexadecimal numbers; in the
// second case the word "released" follows. See plugin/ownership.h.
//
// Anybody with write access to the image can change its metadata: text in another form is not a mark. Parsed
// without librbd, so that it can be tested without a cluster.
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
    bool released = false;
    std::string text() const;
    // How a client got the lock.
    struct Taking {
        // The client that it shut out, if no other client had the image in between; 0: it shut out none, or
        // that is not known.
        uint64_t former = 0;
        bool was_free = false;         // nobody had the lock, or its holder released it
        std::optional<uint64_t> seen;  // the client that released it meanwhile; 0: not known
    };
    // The mark of `client`. It continues the chain of the mark `found` if the lock was taken from the client
    // of that mark, or if that client had released it; else it begins a chain. Without a mark `found` it
    // begins the series `fresh`.
    static HolderMark after(const std::optional<HolderMark>& found, const Taking& taking, uint64_t client,
                            uint64_t fresh) noexcept;
    bool operator==(const HolderMark&) const = default;
};

std::optional<HolderMark> parse_holder_mark(std::string_view text);

}  // namespace wss::io
