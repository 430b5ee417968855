// SPDX-License-Identifier: Apache-2.0
// A listening Unix socket and its file. open() replaces the file of a dead owner, but never that of a live
// one. A lock on `<path>.lock` serialises processes that start or stop, from their check of the file until
// others can detect their listener. The lock file has mode 0600 and is never removed.
//
// Thread-safety: all functions may be called from any thread. A UnixListener is a value.
#pragma once

#include <sys/types.h>

#include <string>

#include "lib/base/file.h"
#include "lib/base/status.h"

struct sockaddr_un;

namespace wss {

// Owns the socket and its file. Removes the file unless another owner has replaced it.
class UnixListener {
  public:
    // `type` is SOCK_STREAM or SOCK_SEQPACKET, optionally with SOCK_NONBLOCK. Only its owner can access the
    // file (0600). Fails with kBusy if a live listener has the path or another process holds its lock, and
    // with kExists if the file is not a socket.
    static Result<UnixListener> open(const std::string& path, int type, int backlog);
    UnixListener() = default;
    UnixListener(UnixListener&&) = default;
    UnixListener& operator=(UnixListener&& other) noexcept;
    ~UnixListener() { reset(); }

    int get() const { return socket_.get(); }
    explicit operator bool() const { return static_cast<bool>(socket_); }
    const std::string& path() const { return path_; }
    void reset() noexcept;

  private:
    UnixListener(std::string path, Descriptor socket, ino_t inode)
        : path_(std::move(path)), socket_(std::move(socket)), inode_(inode) {}

    std::string path_;
    Descriptor socket_;
    ino_t inode_ = 0;
};

// Fails with kInvalid if the path is empty or too long for a socket address.
Result<sockaddr_un> unix_address(const std::string& path);

}  // namespace wss
