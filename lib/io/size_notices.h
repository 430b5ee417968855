// SPDX-License-Identifier: Apache-2.0
// SizeNotices: the size of storage that others resize, and how its user is notified of it.
//
// The user of a backend (a volume, cache engines) drops what lies beyond the end when storage shrinks. A
// shrink that is followed by a growth at once must not be hidden from it: what it knows of the blocks between
// is old. So every size that is smaller than all since the last notice is kept, and reported first. size()
// does not grow before that: until its user has dropped those blocks, requests beyond the smallest size are
// refused.
//
// Notices come from a thread of its own, one at a time, so that whoever reports sizes never waits for the
// user. One that the user could not follow is repeated after kAgain, together with what came meanwhile.
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
    // No notice begins after this. One that is under way is not waited for.
    ~SizeNotices();
    SizeNotices(const SizeNotices&) = delete;
    SizeNotices& operator=(const SizeNotices&) = delete;

    // Without it there are no notices. Fails when there is no thread.
    Status start(uint64_t bytes);

    uint64_t size() const noexcept;
    // The last one that others gave it, of which the user may not know yet.
    uint64_t latest() const noexcept;

    // The size that it begins with, after all: there is no notice of it.
    void begin(uint64_t bytes);
    // Others resized it. While the user resizes it, only a size that this does not explain counts. False: it
    // does not.
    bool changed(uint64_t bytes);
    // … by a reading that began when the user had resized it so often: an older one does not count.
    bool changed(uint64_t bytes, uint64_t own_changes);
    uint64_t own_changes() const noexcept;
    // The user resizes it: to what at the most from now on; what came of it.
    void limit_own(uint64_t bytes);
    void changed_own(uint64_t bytes);
    // It is lost, for good. The last notice.
    void lose();

    // As io::Backend::watch_size().
    void watch(Backend::SizeChanged changed);

  private:
    struct State;
    static void run(const std::shared_ptr<State>& state);
    const std::shared_ptr<State> state_;
};

}  // namespace wss::io
