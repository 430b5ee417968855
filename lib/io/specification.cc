// SPDX-License-Identifier: Apache-2.0
#include "lib/io/specification.h"

#include "lib/io/rbd/options.h"

namespace wss::io {

Unfiltered without_filters(std::string_view specification) {
    Unfiltered below{specification, 0};
    while (below.storage.starts_with("error:") || below.storage.starts_with("delay:")) {
        size_t colon = below.storage.find(':', 6);
        if (colon == std::string_view::npos) break;
        below.storage.remove_prefix(colon + 1);
        ++below.filters;
    }
    return below;
}

bool may_take_storage(std::string_view specification) {
    constexpr std::string_view kRbd = "rbd:";
    const std::string_view storage = without_filters(specification).storage;
    if (!storage.starts_with(kRbd)) return false;
    auto options = parse_rbd_options(storage.substr(kRbd.size()));
    return options && options->steal;
}

}  // namespace wss::io
