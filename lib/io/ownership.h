// SPDX-License-Identifier: Apache-2.0
// Comparison of two results of Backend::ownership(), and the chain of successive holders of the storage.
#pragma once

#include <cstdint>
#include <string_view>

namespace wss::io {

// Earlier releases recorded only the first words of the same text.
inline bool is_same_ownership(std::string_view then, std::string_view now) noexcept {
    return now == then || (!then.empty() && now.starts_with(then) && now[then.size()] == ' ');
}

// For storage that one process holds at a time and another may take. Holders form a chain if each of them
// fenced the one before it and nobody else held the storage in between.
struct Succession {
    uint64_t chain = 0;  // the same for all holders in the chain, and for no others; 0: unknown
    uint64_t place = 0;  // position in the chain; later holders have higher ones
    bool follows(const Succession& other) const noexcept {
        return chain != 0 && chain == other.chain && place > other.place;
    }
    bool operator==(const Succession&) const = default;
};

}  // namespace wss::io
