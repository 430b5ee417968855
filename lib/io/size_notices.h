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
#include <mutex>
#include <optional>

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

    // True if a resize to `bytes` would cut off what others have added, and the user has not followed that
    // growth yet.
    bool would_cut(uint64_t bytes) const noexcept;

    // As io::Backend::hides_growth().
    bool hides_growth() const noexcept;

    // Sets the size to begin with, without a notice. `known`: as for start().
    void begin(uint64_t bytes, uint64_t known = 0);
    // Sends the next notice on the caller's thread, as the thread of start() does. For tests that do not call
    // start(). Returns whether the user acted on the notice; nullopt: there was none.
    std::optional<bool> report();
    // Records that others resized the storage. Returns false and changes nothing if the user is resizing the
    // storage and that resize can explain the size.
    bool changed(uint64_t bytes);
    // The same for a size whose read began at moment(). If a resize by the user has ended since, the size may
    // be older than that resize, or younger. It is then ignored, unless it is smaller than each size that the
    // user has had since: others have shrunk the storage.
    bool changed(uint64_t bytes, uint64_t moment);
    // Number of sizes that the user has had.
    uint64_t moment() const noexcept;
    // True if a resize by the user has ended since `moment`.
    bool has_resized_since(uint64_t moment) const noexcept;
    // These calls enclose a resize by the user. limit_own() is called before it with the requested size,
    // which limits size(). changed_own() is called after it with the resulting size, which the user then
    // knows. If the resize failed, failed_own() is called instead: the user is notified of another size than
    // its own, whoever caused it. unknown_own() is called if the resulting size cannot be read. Then size()
    // stays limited until failed_own() is called with a size whose read began afterwards.
    void limit_own(uint64_t bytes);
    void changed_own(uint64_t bytes);
    void failed_own(uint64_t bytes);
    void unknown_own();
    // Records that the storage is lost. This is permanent, and its notice is the last one.
    void lose();

    // As io::Backend::watch_size().
    void watch(Backend::SizeChanged changed);

  private:
    struct State;
    static void run(const std::shared_ptr<State>& state);
    static bool report(State& state, std::unique_lock<std::mutex>& lock);
    const std::shared_ptr<State> state_;
};

}  // namespace wss::io
