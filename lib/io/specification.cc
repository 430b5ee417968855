// SPDX-License-Identifier: Apache-2.0
#include "lib/io/specification.h"

#include <filesystem>

#include "lib/io/rbd/options.h"

namespace wss::io {

namespace {

constexpr std::string_view kRbd = "rbd:";
// "pool:" may have a number of threads before the path.
constexpr std::string_view kFiles[] = {"aio:", "uring:", "pool:", "spawn:"};

std::string file_name(std::string_view path) {
    const size_t colon = path.find(':');
    if (colon != path.npos && !path.starts_with('/')) path.remove_prefix(colon + 1);
    std::error_code unknown;
    const std::filesystem::path found = std::filesystem::weakly_canonical(path, unknown);
    return "file:" + (unknown ? std::string(path) : found.string());
}

}  // namespace

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
    const std::string_view storage = without_filters(specification).storage;
    if (!storage.starts_with(kRbd)) return false;
    auto options = parse_rbd_options(storage.substr(kRbd.size()));
    return options && options->steal;
}

std::string storage_name(std::string_view specification) {
    const std::string_view storage = without_filters(specification).storage;
    if (storage.starts_with('/')) return file_name(storage);
    for (std::string_view prefix : kFiles)
        if (storage.starts_with(prefix)) return file_name(storage.substr(prefix.size()));
    if (storage.starts_with("rs:")) return std::string(storage);
    if (!storage.starts_with(kRbd)) return {};
    auto options = parse_rbd_options(storage.substr(kRbd.size()));
    if (!options) return {};
    return "rbd:" + options->name() + (options->conf.empty() ? "" : "?conf=" + options->conf);
}

}  // namespace wss::io
