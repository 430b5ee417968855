// SPDX-License-Identifier: Apache-2.0
// Small files of our own: read whole, and replaced so that a crash leaves the old text or the new one.
//
// Thread-safety: functions; two threads must not replace one file at a time (they would share its ".new").
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/status.h"

namespace wss {

// A file descriptor that closes itself.
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

// Appends what an open file holds from its position on. kInvalid when that is more than `max` bytes.
Status read_rest(const Descriptor& file, const std::string& path, size_t max, std::string& text);

// The whole of a file. sys_errno() is ENOENT when there is none.
Result<std::string> read_file(const std::string& path, size_t max);

// Ok only when `text` is on the medium under that name (written beside it, synced, renamed, its folder
// synced), with the owner and mode of the file that it replaces, else mode 600. Otherwise the file is as it
// was, or holds `text` but may lose it to a power cut.
Status replace_file(const std::string& path, std::string_view text);

}  // namespace wss
