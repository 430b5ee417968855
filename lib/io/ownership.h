// SPDX-License-Identifier: Apache-2.0
// Whether storage has had another owner: what Backend::ownership() answered then and now, and in whose place
// a process has it.
#pragma once

#include <cstdint>
#include <string_view>

namespace wss::io {

// Earlier programs noted the first words of the same alone.
inline bool is_same_ownership(std::string_view then, std::string_view now) noexcept {
    return now == then || (!then.empty() && now.starts_with(then) && now[then.size()] == ' ');
}

// Of storage that one process at a time holds, and another one may take. The numbers are of this storage, and
// no two processes have the same.
struct Succession {
    uint64_t holder = 0;  // 0: nothing of this is known
    // Was shut out, and nobody held the storage between the two; 0: not known.
    uint64_t former = 0;
    bool operator==(const Succession&) const = default;
};

}  // namespace wss::io
