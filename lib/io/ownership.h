// SPDX-License-Identifier: Apache-2.0
// Whether storage has had another owner: what Backend::ownership() answered then and now.
#pragma once

#include <string_view>

namespace wss::io {

// Earlier programs noted the first words of the same alone.
inline bool is_same_ownership(std::string_view then, std::string_view now) noexcept {
    return now == then || (!then.empty() && now.starts_with(then) && now[then.size()] == ' ');
}

}  // namespace wss::io
