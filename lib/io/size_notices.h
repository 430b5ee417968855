// SPDX-License-Identifier: Apache-2.0
// SizeNotices: the size of storage that others may resize, and the notices that report it to the user.
//
// When storage shrinks, the user of a backend (a volume, cache engines) drops its state beyond the end. A
// shrink that is followed by a growth at once must not be hidden from the user, because its state of the
// blocks between is outdated. So the smallest size since the last notice is kept and reported first. size()
// does not grow before that: until the user has dropped those blocks, requests beyond the smallest size are
// rejected.
//
// A separate thread sends the notices, one at a time, so that reporting a size never waits for the user. If
// the user returns false, the notice is repeated after kAgain, combined with later changes.
//
// Thread-safety: all methods may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "lib/io/backend.h"

namespace wss::io {

class SizeNotices {
  public:
    static constexpr auto kAgain = std::chrono::seconds(1);

    SizeNotices();
    // No notice starts after this. A notice in progress is not waited for.
    ~SizeNotices();
    SizeNotices(const SizeNotices&) = delete;
    SizeNotices& operator=(const SizeNotices&) = delete;

    // Required for notices. Fails if no thread can be created.
    Status start(uint64_t bytes);

    uint64_t size() const noexcept;
    // The last size that others set. The user may not have been notified of it yet.
    uint64_t latest() const noexcept;

    // Sets the size to begin with, without a notice.
    void begin(uint64_t bytes);
    // Others resized the storage. While the user resizes it, a size that the user's own resize explains does
    // not count. False: the size does not count.
    bool changed(uint64_t bytes);
    // The same for a size that was read when own_changes() had this value. False if the user has resized the
    // storage since.
    bool changed(uint64_t bytes, uint64_t own_changes);
    uint64_t own_changes() const noexcept;
    // The user resizes the storage. limit_own() begins this with the maximum size; changed_own() ends it with
    // the result.
    void limit_own(uint64_t bytes);
    void changed_own(uint64_t bytes);
    // The storage is lost for good. This is the last notice.
    void lose();

    // As io::Backend::watch_size().
    void watch(Backend::SizeChanged changed);

  private:
    struct State;
    static void run(const std::shared_ptr<State>& state);
    const std::shared_ptr<State> state_;
};

}  // namespace wss::io
