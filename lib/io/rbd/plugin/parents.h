// SPDX-License-Identifier: Apache-2.0
// What an image was cloned from, at all levels. What it has not written itself is read from there, by what
// librbd knew of them when it opened the image: it takes it for zeroes, without an error, when a pool of them
// is deleted, or when rbd migration puts another image in the place of one and removes that.
//
// Thread-safety: exist() and any() may be called from any thread, the others from one at a time.
#pragma once

#include <rados/librados.h>
#include <rbd/librbd.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/io/rbd/parent_spec.h"
#include "lib/io/rbd/plugin/look.h"

namespace wss::io::rbd {

// Asks the map of the cluster that this client has: does not wait for Ceph.
bool pool_exists(rados_ioctx_t pool) noexcept;

// The id of a snapshot as methods of Ceph's class rbd take it.
std::array<char, 8> encoded(uint64_t snapshot) noexcept;

class Parents {
  public:
    // Blocks, and opens each of them for a moment. Once. An image that is opened after it has no older ones.
    Status find(rados_t cluster, rbd_image_t image);
    bool any() const noexcept { return any_.load(std::memory_order_acquire); }
    // All of their pools. Does not wait for Ceph.
    bool exist() const noexcept;

    // Looks at each of them, without waiting: changed() knows what the looks before have shown. `cancel`:
    // what has not been answered is asked again.
    void look(bool cancel);
    // One of them is gone, or has another parent; or the image itself, by what its header says.
    bool changed() const noexcept { return changed_; }
    bool is_other(const ParentSpec& of_image) const { return of_image != of_image_; }
    // The image has no parent any more.
    void forget();
    // Nobody asks exist() any more.
    void close();

  private:
    using Pool = std::shared_ptr<void>;  // an I/O context
    struct Parent {
        Pool pool;
        std::string header;
        std::array<char, 8> snapshot{};
        ParentSpec of_it;
        bool is_clone = false;
        std::atomic<bool> looked{false};
        Look look;  // sets `looked`, uses the pool
    };
    static Result<Pool> open_pool(rados_t cluster, int64_t id);
    Status add_pool(rados_t cluster, int64_t id);
    Status walk(rados_t cluster, rbd_image_t image, size_t depth);
    Status add(rados_t cluster, const ParentSpec& spec);
    static bool is_as_it_was(const Parent& parent, int result);

    std::atomic<bool> any_{false};
    bool changed_ = false;
    ParentSpec of_image_;
    std::vector<std::unique_ptr<Parent>> all_;  // the nearest first
    std::vector<Pool> pools_;                   // of data, too; each once
};

}  // namespace wss::io::rbd
