// SPDX-License-Identifier: Apache-2.0
// HeaderWatch: receives notifications of changes of an image's header, without opening the image. While a
// header is watched, rbd refuses to migrate or remove the image.
//
// A watch is not reliable: Ceph may not permit it (it needs write access), and a broken one misses changes
// until it is renewed. So the owner must look at the header as well.
//
// Thread-safety: the public methods may be called from one thread at a time. librados calls the callbacks on
// its own threads until the connection ends, so a HeaderWatch must live until then.
#pragma once

#include <rados/librados.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"

namespace wss::io::rbd {

class HeaderWatch {
  public:
    // How a watch acknowledges an empty notification, which only programs like this one send. So a client
    // that merely watches an image is distinguished from one that has it open.
    static constexpr std::string_view kAnswer = "wss: watches only";

    // `pool` is an I/O context. `wake` is called on a thread of librados, not after end().
    HeaderWatch(std::shared_ptr<void> pool, std::string header, std::function<void()> wake)
        : header_(std::move(header)), wake_(std::move(wake)), pool_(std::move(pool)) {}
    HeaderWatch(const HeaderWatch&) = delete;
    HeaderWatch& operator=(const HeaderWatch&) = delete;

    // Starts the watch, or renews a broken one. Does not wait for Ceph.
    void keep(Nanoseconds now);
    // True if the header may have changed since the last call.
    bool changed() noexcept { return changed_.exchange(false); }
    // Does not wait for Ceph.
    void end();
    // To be called after end(). Returns false if Ceph has not answered by the deadline. The connection must
    // not be shut down before Ceph has answered.
    bool wait_for_end(std::chrono::steady_clock::time_point deadline);
    void wait_for_end();  // without a limit

  private:
    enum class State : uint8_t { kNone, kBeginning, kWatches, kBroken };
    static void began(rados_completion_t completion, void* watch);
    static void unwatched(rados_completion_t completion, void* watch);
    static void notified(void* watch, uint64_t notice, uint64_t cookie, uint64_t, void*, size_t bytes);
    static void broken(void* watch, uint64_t cookie, int error);
    void unwatch();  // m_ held

    const std::string header_;
    const std::function<void()> wake_;
    std::atomic<bool> changed_{false};
    std::mutex m_;
    std::condition_variable answered_;
    // Guarded by m_.
    std::shared_ptr<void> pool_;  // nullptr: ended, and librados has no operation of this watch in flight
    uint64_t cookie_ = 0;
    State state_ = State::kNone;
    bool ended_ = false;
    uint32_t questions_ = 0;  // operations in flight
    Nanoseconds tried_{};
};

// Owned by a connection.
using HeaderWatches = std::vector<std::unique_ptr<HeaderWatch>>;

}  // namespace wss::io::rbd
