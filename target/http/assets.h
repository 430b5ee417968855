// SPDX-License-Identifier: Apache-2.0
// Files of the source tree that are built into the programs and served unchanged: the API description and the
// status page (target/http/page).
#pragma once

#include <span>
#include <string_view>

namespace wss::http {

struct Asset {
    std::string_view path;  // "/api/v1/openapi.json"
    std::string_view type;
    std::string_view text;
};

std::span<const Asset> assets();

}  // namespace wss::http
