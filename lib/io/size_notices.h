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
    // Does not wait for a notice in progress, which may still reach the user unless watch({}) was called.
    ~SizeNotices();
    SizeNotices(const SizeNotices&) = delete;
    SizeNotices& operator=(const SizeNotices&) = delete;

    // Starts the thread that sends the notices. `bytes` is the size to begin with. `known`: the size that the
    // user has; a larger one is reported to it; 0: the user takes what it finds. Fails if no thread can be
    // created.
    Status start(uint64_t bytes, uint64_t known = 0);

    uint64_t size() const noexcept;
    // The last known size, after a change by others or by the user. The user may not have been notified of it
    // yet.
    uint64_t latest() const noexcept;

    // True if a resize to `bytes`, which the user takes for a growth, would cut off what others have added.
    bool would_cut(uint64_t bytes) const noexcept;

    // As io::Backend::hides_growth().
    bool hides_growth() const noexcept;

    // Sets the size to begin with, without a notice.
    void begin(uint64_t bytes);
    // Records that others resized the storage. Returns false and changes nothing if the user is resizing the
    // storage and that resize can explain the size.
    bool changed(uint64_t bytes);
    // The same for a size that was read when own_changes() had the given value. Also returns false if the
    // user has resized the storage since.
    bool changed(uint64_t bytes, uint64_t own_changes);
    // Number of resizes by the user that have ended.
    uint64_t own_changes() const noexcept;
    // These calls enclose a resize by the user. limit_own() is called before it with the requested size,
    // which limits size(). changed_own() is called after it with the resulting size, which the user then
    // knows. If the resize failed, failed_own() is called instead: the user is notified of another size than
    // its own, whoever caused it.
    void limit_own(uint64_t bytes);
    void changed_own(uint64_t bytes);
    void failed_own(uint64_t bytes);
    // Records that the storage is lost. This is permanent, and its notice is the last one.
    void lose();

    // As io::Backend::watch_size().
    void watch(Backend::SizeChanged changed);

  private:
    struct State;
    static void run(const std::shared_ptr<State>& state);
    const std::shared_ptr<State> state_;
};

}  // namespace wss::io
