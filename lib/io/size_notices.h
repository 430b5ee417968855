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
// user.
//
// Thread-safety: all methods may be called from any thread.
#pragma once

#include <atomic>
#include <memory>

#include "lib/io/backend.h"

namespace wss::io {

class SizeNotices {
  public:
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

    // Others resized it.
    void changed(uint64_t bytes);
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
