// SPDX-License-Identifier: Apache-2.0
// Small files of this project. They are read as a whole and replaced atomically: after a crash, a file has
// the old or the new contents.
//
// Thread-safety: all functions may be called from any thread. Two threads must not replace one file at the
// same time (they would share its ".new").
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/status.h"

namespace wss {

// Owns a file descriptor and closes it.
class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept;
    ~Descriptor() { reset(); }
    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    void reset() noexcept;

  private:
    int fd_ = -1;
};

// Appends the rest of an open file to `text`, from the current position. Fails with kInvalid if that is more
// than `max` bytes. If the file is a non-blocking pipe, waits a few seconds for text.
Status read_rest(const Descriptor& file, const std::string& path, size_t max, std::string& text);

// Returns the content of a file. sys_errno() is ENOENT if there is no such file. Does not wait for a process
// to open a pipe.
Result<std::string> read_file(const std::string& path, size_t max);

// Succeeds only when `text` is on the medium under that name. It writes and syncs a second file, renames it
// to the final name, and syncs the directory. The new file gets the owner and mode of the replaced file. If
// there is none, or this process may not change the owner, it gets mode 600. After a failure the file is
// unchanged, or contains `text` but may lose it in a power cut.
Status replace_file(const std::string& path, std::string_view text);

}  // namespace wss
