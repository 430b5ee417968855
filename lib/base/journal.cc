// SPDX-License-Identifier: Apache-2.0
#include "lib/base/journal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace wss::journal {

bool is_standard_error() noexcept {
    const char* stream = std::getenv("JOURNAL_STREAM");  // "DEVICE:INODE"
    struct stat info {};
    if (stream == nullptr || fstat(STDERR_FILENO, &info) != 0) return false;
    const char* end = stream + std::strlen(stream);
    dev_t device = 0;
    ino_t inode = 0;
    const auto first = std::from_chars(stream, end, device);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') return false;
    const auto second = std::from_chars(first.ptr + 1, end, inode);
    return second.ec == std::errc() && second.ptr == end && device == info.st_dev && inode == info.st_ino;
}

}  // namespace wss::journal
