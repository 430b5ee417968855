// SPDX-License-Identifier: Apache-2.0
#include "target/volume/state_lock.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/lock_file.h"

namespace wss::volume {

Result<StateLock::Shared> StateLock::take(const std::string& path) {
    const std::string beside = path + ".lock";
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
    // For the message above only.
    if (ftruncate(fd, 0) != 0 || pwrite(fd, self.data(), self.size(), 0) < 0)
        return Status::from_errno(errno, fmt::format("{}: cannot write it", beside));
    return Shared(new StateLock(path, std::move(*file)));
}

}  // namespace wss::volume
