// SPDX-License-Identifier: Apache-2.0
#include "target/volume/state_lock.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/errno.h"
#include "lib/base/lock_file.h"
#include "lib/base/log.h"

namespace wss::volume {

static std::string lock_of(const std::string& path) {
    return path + ".lock";
}

static Result<Descriptor> lock(const std::string& path) {
    const std::string beside = lock_of(path);
    Result<Descriptor> file = open_lock_file(beside);
    if (!file) return file.status().within("state file " + path);
    const int fd = file->get();
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return Status::from_errno(errno, fmt::format("{}: cannot lock it", beside));
        char owner[32] = {};
        const ssize_t got = pread(fd, owner, sizeof owner - 1, 0);
        return failure(
            Code::kBusy,
            "state file {} is used by another wss-target{}{}: give each its own --state, or stop that "
            "one",
            path, got > 0 ? ", process " : "", owner);
    }
    const std::string self = std::to_string(getpid());
    // The process id is only for the message above.
    if (ftruncate(fd, 0) != 0 || pwrite(fd, self.data(), self.size(), 0) < 0)
        return Status::from_errno(errno,
                                  fmt::format("{}: cannot write the file{}", beside, advice_on_write(errno)));
    return file;
}

Result<StateLock::Shared> StateLock::take(const std::string& path) {
    Result<Descriptor> file = lock(path);
    if (!file) return file.status();
    return Shared(new StateLock(path, std::move(*file)));
}

Status StateLock::keep() const {
    std::lock_guard guard(m_);
    const std::string beside = lock_of(path_);
    struct stat ours {};
    struct stat there {};
    const bool is_there = lstat(beside.c_str(), &there) == 0;
    if (fstat(file_.get(), &ours) != 0) return Status::from_errno(errno, beside);
    if (is_there && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino) return Status::ok();
    Result<Descriptor> again = lock(path_);
    if (!again)
        return again.status().within(fmt::format("{} was removed while this process used it", beside));
    log::error(
        "{} was removed while this process used it, and has been created again. If another wss-target used "
        "this state file meanwhile, this process has overwritten its changes to the files beside it",
        beside);
    file_ = std::move(*again);
    return Status::ok();
}

Status StateLock::write(std::string_view suffix, std::string_view text) const {
    WSS_TRY(keep());
    return replace_file(path_ + std::string(suffix), text);
}

}  // namespace wss::volume
