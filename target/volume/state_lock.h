// SPDX-License-Identifier: Apache-2.0
// StateLock: the right to read and write a state file and the files beside it (the membership of the cache,
// the persistent reservations).
//
// One process at a time holds it: two would overwrite each other's changes. It lasts until the object is
// destroyed or the process ends. The lock is on a file beside the state file, because the state file is
// replaced. Functions that read or write such a file take the lock as an argument.
//
// Removing the lock file (for instance with its folder) removes the lock: another process could create and
// lock a new one. Each write checks for this. If no other process holds the new lock, this process takes it.
// Otherwise it no longer writes anything.
//
// Thread-safety: all methods may be called from any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/file.h"
#include "lib/base/status.h"

namespace wss::volume {

class StateLock {
  public:
    using Shared = std::shared_ptr<const StateLock>;

    // kBusy: another process holds it.
    static Result<Shared> take(const std::string& path);
    StateLock(const StateLock&) = delete;
    StateLock& operator=(const StateLock&) = delete;

    const std::string& path() const { return path_; }
    // Replaces the state file ("") or one beside it (".cache"). kBusy: another process has taken the lock.
    Status write(std::string_view suffix, std::string_view text) const;

  private:
    StateLock(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
    Status keep() const;
    const std::string path_;
    mutable std::mutex m_;
    mutable Descriptor file_;  // guarded by m_
};

}  // namespace wss::volume
