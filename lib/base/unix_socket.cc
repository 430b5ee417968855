// SPDX-License-Identifier: Apache-2.0
#include "lib/base/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "lib/base/clock.h"
#include "lib/base/lock_file.h"

namespace wss {

// Processes hold the lock for a few system calls. Only a stopped process holds it longer.
constexpr Nanoseconds kLockPatience = from_s(2);
constexpr std::chrono::milliseconds kLockRetry{5};

Result<sockaddr_un> unix_address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path)
        return failure(Code::kInvalid, "{}: the path of a socket must have 1 to {} characters", path,
                       sizeof address.sun_path - 1);
    std::copy(path.begin(), path.end(), address.sun_path);
    return address;
}

// Closing the descriptor, or the end of the process, releases the lock. The file remains: if it were removed,
// one process could lock it while another locks its replacement.
static Result<Descriptor> lock_path(const std::string& path) {
    const std::string file = path + ".lock";
    Result<Descriptor> lock = open_lock_file(file);
    if (!lock) return lock.status();
    SystemClock clock;
    const Nanoseconds deadline = clock.now() + kLockPatience;
    while (flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return Status::from_errno(errno, fmt::format("{}: cannot lock it", file));
        if (clock.now() > deadline) return failure(Code::kBusy, "{}: another process holds this lock", file);
        std::this_thread::sleep_for(kLockRetry);
    }
    return lock;
}

// Name and id of the program at the other end, for messages.
static std::string listener_of(const Descriptor& connected) {
    ucred peer{};
    socklen_t length = sizeof peer;
    const std::string unknown = "another process";
    if (getsockopt(connected.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return unknown;
    Result<std::string> name = read_file(fmt::format("/proc/{}/comm", peer.pid), 64);
    if (!name) return unknown;
    std::erase_if(*name, [](unsigned char c) { return c < ' ' || c > '~'; });
    return fmt::format("{}, process {},", *name, peer.pid);
}

// Always fails: with kBusy if a process listens on the path, else with the error of connect().
static Status probe(const std::string& path, const sockaddr_un& address, int type) {
    Descriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return Status::from_errno(errno, path);
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
        return failure(Code::kBusy, "{} is in use: {} listens there", path, listener_of(socket));
    // EAGAIN: the backlog is full. EPROTOTYPE: the socket has another type.
    if (errno == EAGAIN || errno == EPROTOTYPE)
        return failure(Code::kBusy, "{} is in use: another process listens there", path);
    return Status::from_errno(errno, path);
}

// Removes the socket file of a dead owner. REQUIRES the lock of the path.
static Status remove_stale(const std::string& path, const sockaddr_un& address, int type) {
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0) return Status::ok();
    if (!S_ISSOCK(info.st_mode))
        return failure(Code::kExists, "{}: this file exists and is not a socket", path);
    const Status found = probe(path, address, type);
    if (found.sys_errno() != ECONNREFUSED) return found;
    return unlink(path.c_str()) == 0 ? Status::ok() : Status::from_errno(errno, path);
}

Result<UnixListener> UnixListener::open(const std::string& path, int type, int backlog) {
    Result<sockaddr_un> address = unix_address(path);
    if (!address) return address.status();
    Result<Descriptor> lock = lock_path(path);
    if (!lock) return lock.status();
    WSS_TRY(remove_stale(path, *address, type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)));
    Descriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    // The mode is set before bind(), so that the file never has another mode.
    if (!socket || fchmod(socket.get(), 0600) != 0)
        return Status::from_errno(errno, "cannot create a socket");
    struct stat info {};
    if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
        return Status::from_errno(errno, fmt::format("{}: cannot bind", path));
    if (lstat(path.c_str(), &info) != 0 || ::listen(socket.get(), backlog) != 0) {
        Status failed = Status::from_errno(errno, fmt::format("{}: cannot listen", path));
        unlink(path.c_str());
        return failed;
    }
    return UnixListener(path, std::move(socket), info.st_ino);
}

UnixListener& UnixListener::operator=(UnixListener&& other) noexcept {
    if (this == &other) return *this;
    reset();
    path_ = std::move(other.path_);
    socket_ = std::move(other.socket_);
    inode_ = other.inode_;
    return *this;
}

void UnixListener::reset() noexcept {
    if (!socket_) return;
    // Without the lock the file remains: the file of a dead socket is harmless, but removing the file of a
    // live one is not.
    if (Result<Descriptor> lock = lock_path(path_); lock) {
        struct stat info {};
        if (lstat(path_.c_str(), &info) == 0 && info.st_ino == inode_) unlink(path_.c_str());
    }
    socket_.reset();
}

}  // namespace wss
