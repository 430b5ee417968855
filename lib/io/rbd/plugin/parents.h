// SPDX-License-Identifier: Apache-2.0
// The pools of the images that an image was cloned from. What it has not written itself is read from there,
// and librbd takes it for zeroes when such a pool is deleted.
//
// Thread-safety: exist() may be called from any thread, the others from one at a time.
#pragma once

#include <rados/librados.h>
#include <rbd/librbd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/status.h"

namespace wss::io::rbd {

// Asks the map of the cluster that this client has: does not wait for Ceph.
bool pool_exists(rados_ioctx_t pool) noexcept;

class Parents {
  public:
    // Blocks. A failure leaves what was known.
    Status find(rados_t cluster, rbd_image_t image);
    bool exist() const noexcept;
    bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
    void close();

  private:
    using Pool = std::shared_ptr<void>;  // an I/O context
    static Status add(rados_t cluster, int64_t id, std::vector<Pool>& pools);
    static Status walk(rados_t cluster, rbd_image_t image, std::vector<Pool>& pools, int depth);

    std::atomic<bool> any_{false};
    mutable std::mutex m_;
    std::vector<Pool> pools_;  // guarded by m_
};

}  // namespace wss::io::rbd
