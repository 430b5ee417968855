// SPDX-License-Identifier: Apache-2.0
// HeaderWatch: notices of changes of an image's header, without opening the image. As long as somebody
// watches it rbd refuses to migrate the image, or to remove it.
//
// It is a help: a user may not be permitted to watch (it needs the right to write), and one that is broken is
// made anew, so that looks at the header count.
//
// Thread-safety: the public methods may be called from one thread at a time. librados calls the rest from its
// own threads until the connection ends: a HeaderWatch lives as long as that.
#pragma once

#include <rados/librados.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/base/clock.h"

namespace wss::io::rbd {

class HeaderWatch {
  public:
    // `pool` is an I/O context. `wake` is called on a thread of librados, not after end().
    HeaderWatch(std::shared_ptr<void> pool, std::string header, std::function<void()> wake)
        : header_(std::move(header)), wake_(std::move(wake)), pool_(std::move(pool)) {}
    HeaderWatch(const HeaderWatch&) = delete;
    HeaderWatch& operator=(const HeaderWatch&) = delete;

    // Begins it, or begins it anew. Does not wait for Ceph.
    void keep(Nanoseconds now);
    // Since this was asked last the header has changed, or may have.
    bool changed() noexcept { return changed_.exchange(false); }
    // Does not wait for Ceph.
    void end();
    // After end(). False: Ceph has not answered by then, and the connection is librados' until it has.
    bool wait_for_end(std::chrono::steady_clock::time_point deadline);
    void wait_for_end();

  private:
    enum class State : uint8_t { kNone, kBeginning, kWatches, kBroken };
    static void began(rados_completion_t completion, void* watch);
    static void unwatched(rados_completion_t completion, void* watch);
    static void notified(void* watch, uint64_t notice, uint64_t cookie, uint64_t, void*, size_t);
    static void broken(void* watch, uint64_t cookie, int error);
    void unwatch();  // m_ held

    const std::string header_;
    const std::function<void()> wake_;
    std::atomic<bool> changed_{false};
    std::mutex m_;
    std::condition_variable answered_;
    // Guarded by m_.
    std::shared_ptr<void> pool_;  // nullptr: it has ended, and librados has nothing of it any more
    uint64_t cookie_ = 0;
    State state_ = State::kNone;
    bool ended_ = false;
    uint32_t questions_ = 0;  // under way
    Nanoseconds tried_{};
};

// Owned by a connection.
using HeaderWatches = std::vector<std::unique_ptr<HeaderWatch>>;

}  // namespace wss::io::rbd
