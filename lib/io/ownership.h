// SPDX-License-Identifier: Apache-2.0
// Whether storage has had another owner: what Backend::ownership() answered then and now, and which holders
// it has had one after the other.
#pragma once

#include <cstdint>
#include <string_view>

namespace wss::io {

// Earlier programs noted the first words of the same alone.
inline bool is_same_ownership(std::string_view then, std::string_view now) noexcept {
    return now == then || (!then.empty() && now.starts_with(then) && now[then.size()] == ' ');
}

// Of storage that one process at a time holds, and another one may take: a chain of holders, each of which
// shut out the one before it, and nobody else held the storage in between.
struct Succession {
    uint64_t chain = 0;  // the same for all of them, and for no others; 0: nothing of this is known
    uint64_t place = 0;  // in the chain; later ones have higher numbers
    bool follows(const Succession& other) const noexcept {
        return chain != 0 && chain == other.chain && place > other.place;
    }
    bool operator==(const Succession&) const = default;
};

}  // namespace wss::io
