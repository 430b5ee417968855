// SPDX-License-Identifier: Apache-2.0
#include "lib/base/lock_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/errno.h"

namespace wss {

// Returns the reason why open() failed with `error`.
static Status cannot_open_lock_file(const std::string& file, int error) {
    struct stat info {};
    const bool stands = lstat(file.c_str(), &info) == 0;
    // open() fails with EACCES even for root if another user's file is in a directory to which all users may
    // write.
    const bool is_foreign = stands && (error == EACCES || error == ELOOP);
    return Status::from_errno(
        error, fmt::format("{}: cannot open this lock{}", file,
                           is_foreign ? ", which belongs to another user or is a link: remove it"
                                      : advice_on_write(error)));
}

Result<Descriptor> open_lock_file(const std::string& file) {
    Descriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!lock) return cannot_open_lock_file(file, errno);
    struct stat info {};
    if (fstat(lock.get(), &info) != 0)
        return Status::from_errno(errno, fmt::format("{}: cannot read the owner of the lock", file));
    if (!S_ISREG(info.st_mode)) return failure(Code::kExists, "{}: not a regular file: remove it", file);
    if (info.st_uid != geteuid())
        return failure(Code::kPermission,
                       "{}: this process runs as user {}, but the lock belongs to user {}: run as that user, "
                       "or remove the lock",
                       file, geteuid(), info.st_uid);
    if (info.st_nlink > 1 || (info.st_mode & 077) != 0)
        return failure(Code::kPermission, "{}: other users can lock it (mode {:o}, {} links): remove it",
                       file, info.st_mode & 07777, info.st_nlink);
    return lock;
}

}  // namespace wss
