// SPDX-License-Identifier: Apache-2.0
// LockWatch: detects whether another client may have had the exclusive lock of an image for a moment.
//
// A client that takes or releases the lock notifies all watchers of the image's header. So a client that
// breaks the lock of a former owner and then takes it watches the header during both. The list of watchers
// is not enough: it does not show a client that opened, wrote and closed the image in between.
//
// Thread-safety: the methods block, and belong to one thread. librados calls the callbacks on its own
// threads.
#pragma once

#include <rados/librados.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace wss::io::rbd {

class LockWatch {
  public:
    // `pool` and `cluster` must outlive it. Notifications of `former`, which was shut out, do not count.
    LockWatch(rados_t cluster, rados_ioctx_t pool, std::string header, uint64_t former);
    ~LockWatch();
    LockWatch(const LockWatch&) = delete;
    LockWatch& operator=(const LockWatch&) = delete;

    // The errno of the attempt to watch; 0: it succeeded.
    int error() const noexcept { return error_; }
    // True if another client sent a notification, or if a notification may have been missed.
    bool saw_another();

  private:
    static void notified(void* watch, uint64_t notice, uint64_t cookie, uint64_t client, void*, size_t);
    static void broken(void* watch, uint64_t cookie, int error);

    const rados_t cluster_;
    const rados_ioctx_t pool_;
    const std::string header_;
    const uint64_t self_, former_;
    uint64_t cookie_ = 0;
    int error_ = 0;
    std::atomic<bool> saw_another_{false};
};

}  // namespace wss::io::rbd
