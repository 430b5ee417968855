// SPDX-License-Identifier: Apache-2.0
// LockWatch: whether another client may have had the exclusive lock of an image for a moment.
//
// A client that takes the lock, or releases it, notifies all that watch the image's header. A client that
// breaks the lock of a former owner and then takes it watches the header from before the one until after the
// other: one that opened the image, wrote it and closed it in between is not listed as a watcher any more.
//
// Thread-safety: the methods block, and belong to one thread. librados calls the rest from its own.
#pragma once

#include <rados/librados.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace wss::io::rbd {

class LockWatch {
  public:
    // `pool` and `cluster` outlive it. Notifications of `former`, which was shut out, do not count.
    LockWatch(rados_t cluster, rados_ioctx_t pool, std::string header, uint64_t former);
    ~LockWatch();
    LockWatch(const LockWatch&) = delete;
    LockWatch& operator=(const LockWatch&) = delete;

    // A notification came from another client than this, or one may have been missed.
    bool saw_another();

  private:
    static void notified(void* watch, uint64_t notice, uint64_t cookie, uint64_t client, void*, size_t);
    static void broken(void* watch, uint64_t cookie, int error);

    const rados_t cluster_;
    const rados_ioctx_t pool_;
    const std::string header_;
    const uint64_t self_, former_;
    uint64_t cookie_ = 0;
    bool watches_ = false;
    std::atomic<bool> saw_another_{false};
};

}  // namespace wss::io::rbd
