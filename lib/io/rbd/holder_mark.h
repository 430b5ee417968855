// SPDX-License-Identifier: Apache-2.0
// HolderMark: the record that a client writes to the metadata of an image when it takes the lock, and again
// when it releases the lock in an orderly way. Its form is "SERIES TERM SINCE CLIENT", four hexadecimal
// numbers. After a release the word "released" follows. See plugin/ownership.h.
//
// Any client with write access to the image can change its metadata. Text in another form is not a mark.
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
    bool released = false;
    std::string text() const;
    // How a client got the lock.
    struct Taking {
        // The client that it shut out, if no other client had the image in between; 0: it shut out no client,
        // or another client may have had the image.
        uint64_t former = 0;
        bool was_free = false;  // no client had the lock, or its holder released it
        // The holder that was seen before it released the lock; 0: its number is not known. nullopt: no
        // holder was seen.
        std::optional<uint64_t> seen;
    };
    // The mark of `client`. It continues the chain of the mark `found` if the lock was taken from the client
    // of that mark, or if that client had released it; else it begins a chain. Without a mark `found`, or
    // after the highest possible term, it begins the series `fresh`.
    static HolderMark after(const std::optional<HolderMark>& found, const Taking& taking, uint64_t client,
                            uint64_t fresh) noexcept;
    bool operator==(const HolderMark&) const = default;
};

std::optional<HolderMark> parse_holder_mark(std::string_view text);

}  // namespace wss::io
