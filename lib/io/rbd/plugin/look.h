// SPDX-License-Identifier: Apache-2.0
// Look: one small operation on the header of an image, which answers how long the image is, of one that is
// locked who has the lock, and of a clone what it was cloned from. One operation, so that all of it was true
// at one moment.
//
// Thread-safety: none; what is written while it is under way is librados'.
#pragma once

#include <rados/librados.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lib/base/clock.h"
#include "lib/io/rbd/lock_info.h"
#include "lib/io/rbd/parent_spec.h"

namespace wss::io::rbd {

constexpr Nanoseconds kLookPeriod = from_ms(900);  // less than that of the keeper's turns
constexpr const char* kLockName = "rbd_lock";      // librbd's, on the image's header

class Look {
  public:
    ~Look() { end(); }
    struct At {
        rados_ioctx_t pool = nullptr;
        const char* header = nullptr;
        std::span<const char> snapshot;  // its id, encoded
        bool lock = false;               // look at the lock and the flags, too
        bool parent = false;             // … at what it was cloned from
    };
    // False: there is no memory. `over` is called on a thread of librados.
    bool begin(const At& at, Nanoseconds now, rados_callback_t over, void* context);
    bool under_way() const { return completion_ != nullptr; }
    // Of the one that began last.
    Nanoseconds began() const { return began_; }
    // One that is under way for so long ends soon, with ECANCELED, unless it was answered: an OSD that has
    // lost what it held may have dropped it, and then it would never end. After that, twice as long: some
    // answer late.
    void cancel_late(Nanoseconds now, Nanoseconds limit);
    // It is over. 0 or the negative errno of the operation.
    int take();
    // Of one that is under way: it is over, and forgotten. Does not wait for Ceph.
    void end();

    // What get_size answered; empty: nothing. Also during `over`.
    std::span<const char> size() const { return {size_.data(), size_bytes_}; }
    // Of a lock that was looked at. `client` as for lock_holder().
    LockHolder holder(uint64_t client) const;
    // The image has an exclusive lock still.
    bool has_lock() const;
    bool maps_objects() const;
    // RBD_FLAG_…; nothing: they were not answered.
    std::optional<uint64_t> flags() const;
    // Of one whose parent was looked at. Nothing: that could not be read.
    std::optional<ParentSpec> parent() const { return parse_parent({parent_.data(), parent_bytes_}); }
    std::optional<bool> has_parent() const { return parse_overlap({overlap_.data(), overlap_bytes_}); }

  private:
    rados_completion_t completion_ = nullptr;
    rados_ioctx_t pool_ = nullptr;
    Nanoseconds began_{};
    int64_t patience_ = 1;  // how often the limit
    std::array<char, 16> size_{};
    std::array<char, 16> features_{};
    std::array<char, 1024> lock_{};  // longer: several have it, or one with a name of its own
    std::array<char, 8> flags_{};
    std::array<char, 16> overlap_{};
    std::array<char, 1024> parent_{};
    size_t size_bytes_ = 0, features_bytes_ = 0, lock_bytes_ = 0, flags_bytes_ = 0;
    size_t overlap_bytes_ = 0, parent_bytes_ = 0;
    int size_result_ = 0, features_result_ = 0, lock_result_ = 0, flags_result_ = 0;
    int overlap_result_ = 0, parent_result_ = 0;
};

}  // namespace wss::io::rbd
