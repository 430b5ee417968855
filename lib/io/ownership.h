// SPDX-License-Identifier: Apache-2.0
// Comparison of two results of Backend::ownership(), and the order of successive holders of the storage.
#pragma once

#include <cstdint>
#include <string_view>

namespace wss::io {

// Earlier releases recorded only the first words of the same text.
inline bool is_same_ownership(std::string_view then, std::string_view now) noexcept {
    return now == then || (!then.empty() && now.starts_with(then) && now[then.size()] == ' ');
}

// The place of one holder among all holders of storage that one process holds at a time and another may take.
// Every holder gets a higher term than all before it. Successive holders form a chain if each of them fenced
// the one before it, or the one before it released the storage, and nobody else held the storage in between.
struct Succession {
    uint64_t series = 0;  // terms of different series cannot be compared; 0: unknown
    uint64_t term = 0;    // 1 or more
    uint64_t since = 0;   // term of the first holder of this one's chain
    // True if this holder had the storage later than `other`.
    bool is_after(const Succession& other) const noexcept {
        return series != 0 && series == other.series && term > other.term;
    }
    // True if only members of their common chain have held the storage since `other` did.
    bool follows(const Succession& other) const noexcept { return is_after(other) && since <= other.term; }
    bool is_known() const noexcept { return series != 0; }
    bool operator==(const Succession&) const = default;
};

}  // namespace wss::io
