// SPDX-License-Identifier: Apache-2.0
#include "lib/base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "lib/base/errno.h"

namespace wss {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
    if (this != &other) {
        reset();
        fd_ = other.release();
    }
    return *this;
}

void Descriptor::reset() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

namespace {

Status file_error(const std::string& path, const char* doing) {
    return Status::from_errno(errno, fmt::format("{}: cannot {}{}", path, doing, advice_on_write(errno)));
}

// write() may write only a part: on a full disk it writes what fits, and only the next call fails.
Status write_all(const Descriptor& file, const std::string& path, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(file.get(), text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return file_error(path, "write the file");
        text.remove_prefix(static_cast<size_t>(written));
    }
    if (fsync(file.get()) != 0) return file_error(path, "sync the file");
    return Status::ok();
}

// The new file gets the owner and mode of the old one, so that users of the old one keep access: root may
// write a file for a service of another user. Without the right to change the owner, the file belongs to the
// user of this process and has mode 600.
Status keep_owner(const Descriptor& file, const std::string& beside, const std::string& path) {
    struct stat old {};
    if (lstat(path.c_str(), &old) != 0 || !S_ISREG(old.st_mode)) return Status::ok();
    if (fchown(file.get(), old.st_uid, old.st_gid) != 0) return Status::ok();
    if (fchmod(file.get(), old.st_mode & 07777) != 0)
        return file_error(beside, "give the file the mode of the old file");
    return Status::ok();
}

// Creates a new file. Removes an existing file with that name: a leftover of a crash, or a link that another
// user placed there.
Status write_beside(const std::string& beside, const std::string& path, std::string_view text) {
    if (::unlink(beside.c_str()) != 0 && errno != ENOENT) return file_error(beside, "remove the file");
    Descriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return file_error(beside, "create the file");
    WSS_TRY(keep_owner(file, beside, path));
    return write_all(file, beside, text);
}

}  // namespace

// A process that passes text through a pipe normally writes it at once. This bounds the wait for one that
// does not.
constexpr int kPipeWait_ms = 5000;

static bool wait_for_text(const Descriptor& pipe) {
    pollfd waited{.fd = pipe.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waited, 1, kPipeWait_ms);
    if (ready == 0) errno = ETIMEDOUT;
    return ready > 0;
}

Status read_rest(const Descriptor& file, const std::string& path, size_t max, std::string& text) {
    const size_t before = text.size();
    size_t done = before;
    for (;;) {
        text.resize(done + 65536);
        const ssize_t got = ::read(file.get(), text.data() + done, text.size() - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN && wait_for_text(file)) continue;
        if (got < 0) return file_error(path, "read the file");
        done += static_cast<size_t>(got);
        if (done - before > max) return failure(Code::kInvalid, "{}: larger than {} bytes", path, max);
        if (got == 0) break;
    }
    text.resize(done);
    return Status::ok();
}

Result<std::string> read_file(const std::string& path, size_t max) {
    // A blocking open() of a pipe would wait for a writer.
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return file_error(path, "open the file");
    std::string text;
    WSS_TRY(read_rest(file, path, max, text));
    struct stat facts {};
    if (text.empty() && fstat(file.get(), &facts) == 0 && S_ISFIFO(facts.st_mode))
        return failure(Code::kInvalid, "{}: a pipe to which no process has written", path);
    return text;
}

Status replace_file(const std::string& path, std::string_view text) {
    // Open the directory first, so that after the rename only a disk error can cause a failure.
    const std::string folder = std::filesystem::path(path).parent_path().string();
    Descriptor directory(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return file_error(path, "open its directory");
    const std::string beside = path + ".new";
    if (Status written = write_beside(beside, path, text); !written) {
        ::unlink(beside.c_str());
        return written;
    }
    if (std::rename(beside.c_str(), path.c_str()) != 0) return file_error(path, "replace the file");
    return fsync(directory.get()) == 0 ? Status::ok() : file_error(path, "sync its directory");
}

}  // namespace wss
