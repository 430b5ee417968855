// SPDX-License-Identifier: Apache-2.0
#include "lib/io/specification.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <optional>

#include "lib/io/rbd/options.h"

namespace wss::io {

namespace {

constexpr std::string_view kRbd = "rbd:";

std::string file_of(const char* path) {
    struct stat found {};
    struct statvfs system {};
    if (stat(path, &found) != 0 || statvfs(path, &system) != 0) return {};
    if (S_ISBLK(found.st_mode)) return fmt::format("device:{:x}", found.st_rdev);
    return file_identity(system.f_fsid, found.st_dev, found.st_ino);
}

StorageName file_name(std::string_view path) {
    std::error_code unknown;
    const std::filesystem::path found = std::filesystem::weakly_canonical(path, unknown);
    return {"file:" + (unknown ? std::string(path) : found.string()), file_of(std::string(path).c_str())};
}

}  // namespace

std::string file_identity(uint64_t file_system, uint64_t device, uint64_t inode) {
    if (file_system != 0) return fmt::format("{:x}:{:x}", file_system, inode);
    return fmt::format("on:{:x}:{:x}", device, inode);
}

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

std::string_view path_of(std::string_view storage) {
    if (storage.starts_with('/')) return storage;
    for (std::string_view prefix : kFilePrefixes) {
        if (!storage.starts_with(prefix)) continue;
        storage.remove_prefix(prefix.size());
        // Skip the number of threads before the path.
        const size_t colon = storage.find(':');
        if (prefix == "pool:" && colon != storage.npos && !storage.starts_with('/'))
            storage.remove_prefix(colon + 1);
        return storage;
    }
    return {};
}

static std::optional<RbdOptions> rbd_options(std::string_view specification) {
    const std::string_view storage = without_filters(specification).storage;
    if (!storage.starts_with(kRbd)) return std::nullopt;
    auto options = parse_rbd_options(storage.substr(kRbd.size()));
    return options ? std::optional(*options) : std::nullopt;
}

bool has_owner(std::string_view specification) {
    const auto options = rbd_options(specification);
    return options && options->is_head();
}

StorageName storage_name(std::string_view specification) {
    const std::string_view storage = without_filters(specification).storage;
    if (const std::string_view path = path_of(storage); !path.empty()) return file_name(path);
    if (storage.starts_with("rs:")) return {std::string(storage), {}};
    const auto options = rbd_options(storage);
    if (!options) return {};
    return {"rbd:" + options->name() + (options->conf.empty() ? "" : "?conf=" + options->conf), {}};
}

}  // namespace wss::io
