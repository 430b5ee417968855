// SPDX-License-Identifier: Apache-2.0
#include "lib/base/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "lib/base/errno.h"
#include "lib/base/file.h"

namespace wss {

Status sync_folder_of(const std::string& path) {
    std::filesystem::path entry(path);
    if (!entry.has_filename()) entry = entry.parent_path();  // "folder/"
    const std::string folder = entry.parent_path().string();
    Descriptor directory(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return Status::from_errno(errno, fmt::format("{}: cannot open its directory", path));
    if (fsync(directory.get()) == 0) return Status::ok();
    return Status::from_errno(errno,
                              fmt::format("{}: cannot sync its directory{}", path, advice_on_write(errno)));
}

Status make_folder(const std::string& path) {
    if (::mkdir(path.c_str(), 0755) == 0) return sync_folder_of(path);
    if (errno == EEXIST) return Status::ok();
    return Status::from_errno(errno,
                              fmt::format("{}: cannot create the directory{}", path, advice_on_write(errno)));
}

}  // namespace wss
