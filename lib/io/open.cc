// SPDX-License-Identifier: Apache-2.0
// The table of backends. A new backend adds a row to kKinds. A backend of files or devices also adds its
// prefix to kFilePrefixes (specification.h).
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "lib/base/size.h"
#include "lib/io/aio/aio.h"
#include "lib/io/filter/filter.h"
#include "lib/io/plugin.h"
#include "lib/io/ram/ram.h"
#include "lib/io/rbd/options.h"
#include "lib/io/specification.h"
#include "lib/io/threads/threads.h"
#include "lib/io/uring/uring.h"

namespace wss::io {

namespace {

using Opened = Result<std::unique_ptr<Backend>>;
constexpr int kFiltersMax = 4;  // stacked on one backend

enum class Medium : uint8_t { kFile, kOther };  // kFile: a file or a device

struct Kind {
    std::string_view prefix;
    Medium medium;
    Opened (*open)(const std::string& rest, const OpenOptions& options);
};

Opened open_ram(const std::string& rest, const OpenOptions& options) {
    uint64_t bytes = options.size;
    if (!rest.empty()) {
        auto parsed = parse_size(rest);
        if (!parsed) return parsed.status();
        // A size from elsewhere (a recorded resize) takes precedence over the specification.
        if (bytes == 0) bytes = *parsed;
    }
    if (bytes == 0) return failure(Code::kInvalid, "ram: needs a size, for example ram:64M");
    return RamBackend::create(bytes);
}

Opened open_aio(const std::string& rest, const OpenOptions& options) {
    if (rest.empty())
        return failure(Code::kInvalid, "aio: needs a path, for example aio:/var/lib/wss/disk.img");
    return AioBackend::open(rest, options);
}

// "pool:PATH" or "pool:THREADS:PATH".
Opened open_pool(const std::string& rest, const OpenOptions& options) {
    uint32_t threads = kPoolThreads;
    size_t colon = rest.find(':');
    std::string path = rest;
    if (colon != std::string::npos && !rest.starts_with('/')) {
        auto [end, wrong] = std::from_chars(rest.data(), rest.data() + colon, threads);
        if (wrong != std::errc() || end != rest.data() + colon || threads < 1 ||
            threads > Worker::kThreadsMax)
            return failure(Code::kInvalid, "pool:{}: give 1 to {} threads, for example pool:16:/dev/nvme0n1",
                           rest, Worker::kThreadsMax);
        path = rest.substr(colon + 1);
    }
    if (path.empty()) return failure(Code::kInvalid, "pool: needs a path, for example pool:16:/dev/nvme0n1");
    return ThreadsBackend::open(ThreadsBackend::Kind::kPool, threads, path, options);
}

Opened open_spawn(const std::string& rest, const OpenOptions& options) {
    if (rest.empty()) return failure(Code::kInvalid, "spawn: needs a path, for example spawn:/dev/nvme0n1");
    return ThreadsBackend::open(ThreadsBackend::Kind::kSpawn, 1, rest, options);
}

Opened open_uring(const std::string& rest, const OpenOptions& options) {
    if (rest.empty()) return failure(Code::kInvalid, "uring: needs a path, for example uring:/dev/nvme0n1");
    return UringBackend::open(rest, options);
}

Result<const Plugin*> plugin_for_rbd(const std::string& rest) {
    auto parsed = parse_rbd_options(rest);
    if (!parsed) return parsed.status();
    return load_plugin("rbd", "librbd1");
}

Opened open_rbd(const std::string& rest, const OpenOptions& options) {
    auto plugin = plugin_for_rbd(rest);
    if (!plugin) return plugin.status();
    return (*plugin)->open(rest, options);
}

using MakeFilter = std::unique_ptr<Backend> (*)(const FilterRule& rule, std::unique_ptr<Backend> inner);

// OK if the directory of this path permits the creation of files.
Status check_folder(std::string_view path) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0) return Status::ok();
    return Status::from_errno(errno, fmt::format("cannot create {}", path));
}

Opened open_filter(MakeFilter make, const std::string& rest, const OpenOptions& options) {
    size_t colon = rest.find(':');
    if (colon == std::string::npos)
        return failure(Code::kInvalid,
                       "filter: write error:KEY=VALUE,...:BACKEND, for example error:every=100:ram:64M");
    auto rule = parse_filter_rule(std::string_view(rest).substr(0, colon));
    if (!rule) return rule.status();
    auto inner = open_backend(rest.substr(colon + 1), options);
    if (!inner) return inner.status();
    return make(*rule, std::move(*inner));
}

constexpr Kind kKinds[] = {
    {"aio:", Medium::kFile, open_aio},
    {"ram:", Medium::kOther, open_ram},
    {"uring:", Medium::kFile, open_uring},
    {"pool:", Medium::kFile, open_pool},
    {"spawn:", Medium::kFile, open_spawn},
    {"rbd:", Medium::kOther, open_rbd},
    {"error:", Medium::kOther,
     [](const std::string& rest, const OpenOptions& options) {
         return open_filter(make_error_filter, rest, options);
     }},
    {"delay:", Medium::kOther,
     [](const std::string& rest, const OpenOptions& options) {
         return open_filter(make_delay_filter, rest, options);
     }},
};

constexpr bool has_file_prefix(const Kind& kind) {
    return std::ranges::find(kFilePrefixes, kind.prefix) != std::end(kFilePrefixes);
}
static_assert(std::ranges::all_of(kKinds,
                                  [](const Kind& kind) {
                                      return has_file_prefix(kind) == (kind.medium == Medium::kFile);
                                  }),
              "kFilePrefixes (specification.h) must name the backends of files");

}  // namespace

Opened open_backend(const std::string& specification, const OpenOptions& options) {
    if (without_filters(specification).filters > kFiltersMax)
        return failure(Code::kInvalid, "at most {} filters on one backend", kFiltersMax);
    try {
        for (const Kind& kind : kKinds)
            if (specification.starts_with(kind.prefix))
                return kind.open(specification.substr(kind.prefix.size()), options);
        if (specification.starts_with('/')) return AioBackend::open(specification, options);
    } catch (const std::system_error& error) {
        return Status::from_errno(
            error.code().value(),
            fmt::format("{}: cannot create a thread (TasksMax, ulimit -u)", specification));
    }
    return failure(
        Code::kInvalid,
        "unknown backend '{}': write aio:PATH, uring:PATH, pool:PATH, spawn:PATH, ram:SIZE or rbd:POOL/IMAGE",
        specification);
}

Status check_backend(const std::string& specification, const OpenOptions& options) {
    const Unfiltered below = without_filters(specification);
    const std::string storage(below.storage);
    if (below.filters <= kFiltersMax && storage.starts_with("rbd:")) {
        auto plugin = plugin_for_rbd(storage.substr(4));
        return plugin ? (*plugin)->check(storage.substr(4), options) : plugin.status();
    }
    const bool nobodys = storage.starts_with("ram:");
    const OpenOptions reading{.size = nobodys ? options.size : 0, .read_only = true, .any_size = true};
    const Status opened = open_backend(specification, reading).status();
    return options.create && opened.code() == Code::kNotFound ? check_folder(path_of(storage)) : opened;
}

}  // namespace wss::io
