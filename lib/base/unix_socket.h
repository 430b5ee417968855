// SPDX-License-Identifier: Apache-2.0
// A listening Unix socket and its file. The file of a dead owner is replaced, that of a living one never:
// starters and owners that end take turns, by a lock on `<path>.lock`, from the look at the file to the first
// moment at which others see a living listener. That file is its owner's alone (0600) and stays.
//
// Thread-safety: functions; a UnixListener like any value.
#pragma once

#include <sys/types.h>

#include <string>

#include "lib/base/file.h"
#include "lib/base/status.h"

struct sockaddr_un;

namespace wss {

// Owns the socket and its file, which it removes unless another owner has replaced it.
class UnixListener {
  public:
    // `type` is SOCK_STREAM or SOCK_SEQPACKET, perhaps with SOCK_NONBLOCK. The file is its owner's alone
    // (0600). kBusy: a living listener has the path. kExists: the file is no socket.
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

// kInvalid when the path is empty or longer than a socket's address holds.
Result<sockaddr_un> unix_address(const std::string& path);

}  // namespace wss
