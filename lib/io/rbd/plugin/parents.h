// SPDX-License-Identifier: Apache-2.0
// Parents: the images that an image was cloned from, at all levels. Data that the image has not written
// itself is read from them. librbd keeps the parents that it found when it opened the image. It reads zeroes,
// without an error, when one of their pools is deleted, when rbd migration replaces one of them and then
// removes it, or when one of their snapshots is removed.
//
// Each parent is watched, and looked at once a second. A missing parent may also mean that the image is being
// flattened, because a deleted snapshot is removed with its last clone. So the image's own header decides, by
// a look that began after the missing parent was noted.
//
// Thread-safety: state(), exist(), any() and silent() may be called from any thread, the others from one
// thread at a time.
#pragma once

#include <rados/librados.h>
#include <rbd/librbd.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/io/rbd/parent_spec.h"
#include "lib/io/rbd/plugin/header_watch.h"
#include "lib/io/rbd/plugin/look.h"

namespace wss::io::rbd {

// Reads this client's copy of the cluster map, so that it does not wait for Ceph.
bool pool_exists(rados_ioctx_t pool) noexcept;

// The id of a snapshot as methods of Ceph's class rbd expect it.
std::array<char, 8> encoded(uint64_t snapshot) noexcept;

class Parents {
  public:
    enum class State : uint8_t {
        kAsFound,  // unchanged since find(), or the image has no parent
        kUnknown,  // a parent is gone, and it is not known yet whether the image needs it
        kMoved,    // librbd reads zeroes
        kDeleted,  // librbd reads zeroes because a pool is deleted
    };
    // `wake` is called on a thread of librados when look() has something to do.
    Parents(HeaderWatches& watches, std::function<void()> wake) : watches_(watches), wake_(std::move(wake)) {}

    // Finds the parents. Blocks, and opens each of them for a moment. May be called once. An image that is
    // opened afterwards has no older parents.
    Status find(rados_t cluster, rbd_image_t image);
    // Fails unless the image, which was opened after find(), has the same parents.
    Status confirm(rados_t cluster, rbd_image_t image) const;
    State state() const noexcept { return state_.load(std::memory_order_acquire); }
    // True if the pools of all parents exist. Does not wait for Ceph.
    bool exist() const noexcept;
    // Bytes of the smallest stripe unit of the parents; UINT64_MAX: the image had none when it was opened.
    uint64_t stripe_unit() const noexcept { return stripe_unit_; }
    // The longest time for which the looks at a parent have not been answered.
    Nanoseconds silent(Nanoseconds now) const noexcept;

    // True if there are parents: looks at the image must read its parent, too.
    bool any() const noexcept { return any_.load(std::memory_order_acquire); }
    // True if a look at the image should begin now. `began`: start of the last one.
    bool wants_look(Nanoseconds began) const noexcept { return any() && noted_.count != 0 && began < noted_; }
    // Takes the result of a look at the image that began at `began`. `is_head`: the image is not a snapshot.
    // librbd does not detect that a snapshot was flattened. Returns false if the result cannot be decoded.
    bool image_is(const Look& look, Nanoseconds began, bool is_head);
    // Takes the results of looks and begins new ones, without waiting. Looks that are not answered within
    // `limit` are repeated. A parent that cannot be read for that long is ignored.
    State look(Nanoseconds now, Nanoseconds limit);
    void end_watches();
    // No other thread may call exist() any more. Waits for Ceph for at most a second. Returns false if Ceph
    // has not answered. The connection must then not be shut down.
    bool close();

  private:
    using Pool = std::shared_ptr<void>;  // an I/O context
    struct Parent {
        Parents* all = nullptr;
        Pool pool;
        std::string header;
        std::array<char, 8> snapshot{};
        ParentSpec of_it;
        bool is_clone = false;
        enum class Seen : uint8_t { kAsFound, kGone, kOther };  // kOther: its own parent
        Seen seen = Seen::kAsFound;
        Nanoseconds answered{}, shown{};  // start of the last answered look; of the last readable one
        HeaderWatch* watch = nullptr;
        bool changed = false;  // since the last look began
        std::atomic<bool> over{false};
        Look look;  // sets `over` and uses `pool`, so it must be destroyed first
    };
    static Result<Pool> open_pool(rados_t cluster, int64_t id);
    Status add_pool(rados_t cluster, int64_t id);
    Status walk(rados_t cluster, rbd_image_t image, size_t depth);
    Status add(rados_t cluster, const ParentSpec& spec);
    static void take(Parent& parent);
    static void begin(Parent& parent, Nanoseconds now);
    State decide(Nanoseconds now, Nanoseconds limit);
    bool is_as(const Parents& other) const;

    HeaderWatches& watches_;
    const std::function<void()> wake_;
    std::atomic<bool> any_{false};
    std::atomic<State> state_{State::kAsFound};
    std::atomic<int64_t> answered_{0};  // the smallest Parent::answered
    ParentSpec of_image_;
    std::vector<std::unique_ptr<Parent>> all_;  // the nearest first
    std::vector<Pool> pools_;                   // with data pools; each once
    uint64_t stripe_unit_ = UINT64_MAX;
    Nanoseconds noted_{};  // when a missing parent was noted; 0: none is missing
    // From the last look at the image.
    Nanoseconds image_began_{};
    bool image_is_head_ = true, image_has_another_ = false;
};

}  // namespace wss::io::rbd
