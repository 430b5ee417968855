// SPDX-License-Identifier: Apache-2.0
// StateLock: the right to read and write a state file and the files beside it (the membership of the cache).
//
// One process at a time has it: two would each forget, or destroy, what the other made. It lasts as long as
// the object, or the process. A file beside the state file carries it, because the state file is replaced.
// Functions that read or write such a file take the lock as an argument.
//
// Thread-safety: immutable.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "lib/base/file.h"
#include "lib/base/status.h"

namespace wss::volume {

class StateLock {
  public:
    using Shared = std::shared_ptr<const StateLock>;

    // kBusy: another process has it.
    static Result<Shared> take(const std::string& path);
    StateLock(const StateLock&) = delete;
    StateLock& operator=(const StateLock&) = delete;

    const std::string& path() const { return path_; }

  private:
    StateLock(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
    const std::string path_;
    const Descriptor file_;
};

}  // namespace wss::volume
