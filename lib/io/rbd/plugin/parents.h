// SPDX-License-Identifier: Apache-2.0
// What an image was cloned from, at all levels. What it has not written itself is read from there, by what
// librbd knew of them when it opened the image: it takes it for zeroes, without an error, when a pool of them
// is deleted, when rbd migration puts another image in the place of one and removes that, or when a snapshot
// of them is removed.
//
// Each is watched, and looked at once a second. One that is gone may be so because the image is flattened:
// the last clone takes what it was made of with it. So it is the image's own header that decides, when a look
// has begun after that was noted.
//
// Thread-safety: state(), exist() and silent() may be called from any thread, the others from one at a time.
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

// Asks the map of the cluster that this client has: does not wait for Ceph.
bool pool_exists(rados_ioctx_t pool) noexcept;

// The id of a snapshot as methods of Ceph's class rbd take it.
std::array<char, 8> encoded(uint64_t snapshot) noexcept;

class Parents {
  public:
    enum class State : uint8_t {
        kAsFound,  // also: there are none (any more)
        kUnknown,  // one is gone, and whether the image needs it is not known yet
        kMoved,    // librbd reads zeroes
        kDeleted,  // … because a pool is deleted
    };
    // `wake` is called on a thread of librados when look() has something to do.
    Parents(HeaderWatches& watches, std::function<void()> wake) : watches_(watches), wake_(std::move(wake)) {}

    // Blocks, and opens each of them for a moment. Once. An image that is opened after it has no older ones.
    Status find(rados_t cluster, rbd_image_t image);
    // One that was opened after it is as it was found.
    Status confirm(rados_t cluster, rbd_image_t image) const;
    State state() const noexcept { return state_.load(std::memory_order_acquire); }
    // All of their pools. Does not wait for Ceph.
    bool exist() const noexcept;
    // How long the look at some of them has not been answered.
    Nanoseconds silent(Nanoseconds now) const noexcept;

    // Whether the image's own looks have to ask for its parent.
    bool any() const noexcept { return any_.load(std::memory_order_acquire); }
    // … and one should begin now, when the last one began then.
    bool wants_look(Nanoseconds began) const noexcept { return any() && noted_.count != 0 && began < noted_; }
    // What a look at the image has shown that had begun then. `is_head`: not a snapshot, of which librbd does
    // not hear that it was flattened. False: it cannot be read.
    bool image_is(const Look& look, Nanoseconds began, bool is_head);
    // Takes what looks have shown, and begins others, without waiting. One that is not answered within
    // `limit` is asked again, and a parent that cannot be read for so long decides nothing.
    State look(Nanoseconds now, Nanoseconds limit);
    void end_watches();
    // Nobody asks exist() any more. Waits for Ceph for a second at the most. False: it has not answered, and
    // the connection may not end.
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
        Nanoseconds answered{}, shown{};  // when the last look began that was; … and not refused
        HeaderWatch* watch = nullptr;
        bool changed = false;  // since the last look began
        std::atomic<bool> over{false};
        Look look;  // sets `over`, uses the pool
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
    std::atomic<int64_t> answered_{0};  // when the look began that all of them have answered since
    ParentSpec of_image_;
    std::vector<std::unique_ptr<Parent>> all_;  // the nearest first
    std::vector<Pool> pools_;                   // of data, too; each once
    Nanoseconds noted_{};                       // since when one is gone; 0: none
    // By its last look.
    Nanoseconds image_began_{};
    bool image_is_head_ = true, image_has_another_ = false;
};

}  // namespace wss::io::rbd
