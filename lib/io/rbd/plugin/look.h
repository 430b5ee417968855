// SPDX-License-Identifier: Apache-2.0
// Look: one small read operation on the header of an image. It reads the size, the holder of the lock if the
// image is locked, and the parent if the image is a clone. A single operation is used so that all values
// belong to one moment.
//
// Thread-safety: none. While it is in flight librados owns its result buffers.
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

constexpr Nanoseconds kLookPeriod = from_ms(900);  // less than the keeper's period
constexpr const char* kLockName = "rbd_lock";      // librbd's, on the image's header

class Look {
  public:
    ~Look() { end(); }
    struct At {
        rados_ioctx_t pool = nullptr;
        const char* header = nullptr;
        std::span<const char> snapshot;  // its id, encoded
        bool lock = false;               // read the lock, the features and the flags, too
        bool parent = false;             // read the parent, too
    };
    // Returns false if librados has not accepted the operation. `over` is called on a thread of librados when
    // the operation has ended.
    bool begin(const At& at, Nanoseconds now, rados_callback_t over, void* context);
    bool under_way() const { return completion_ != nullptr; }
    // Time of the last begin().
    Nanoseconds began() const { return began_; }
    // Cancels an operation that has been in flight for `limit`: it ends soon, with ECANCELED unless it was
    // answered. An OSD that has lost its objects may have dropped the operation, which then would never end.
    // Each cancellation doubles the limit, until an answer comes, because some OSDs answer late.
    void cancel_late(Nanoseconds now, Nanoseconds limit);
    // To be called after `over`. Returns 0 or the negative errno of the operation.
    int take();
    // Cancels and discards an operation in flight. Does not wait for Ceph.
    void end();

    // The reply of get_size; empty if there is none. May be called during `over`.
    std::span<const char> size() const { return {size_.data(), size_bytes_}; }
    // For looks with At::lock. `client` as for lock_holder().
    LockHolder holder(uint64_t client) const;
    // True if the image still has the feature exclusive-lock.
    bool has_lock() const;
    bool maps_objects() const;
    // Bits RBD_FLAG_…, or nullopt if there was no reply.
    std::optional<uint64_t> flags() const;
    // For looks with At::parent. nullopt: the reply could not be decoded.
    std::optional<ParentSpec> parent() const { return parse_parent({parent_.data(), parent_bytes_}); }
    std::optional<bool> has_parent() const { return parse_overlap({overlap_.data(), overlap_bytes_}); }

  private:
    rados_completion_t completion_ = nullptr;
    rados_ioctx_t pool_ = nullptr;
    Nanoseconds began_{};
    int64_t patience_ = 1;  // factor of the limit
    std::array<char, 16> size_{};
    std::array<char, 16> features_{};
    std::array<char, 1024> lock_{};  // a longer reply: several holders, or a cookie that is not librbd's
    std::array<char, 8> flags_{};
    std::array<char, 16> overlap_{};
    std::array<char, 1024> parent_{};
    size_t size_bytes_ = 0, features_bytes_ = 0, lock_bytes_ = 0, flags_bytes_ = 0;
    size_t overlap_bytes_ = 0, parent_bytes_ = 0;
    int size_result_ = 0, features_result_ = 0, lock_result_ = 0, flags_result_ = 0;
    int overlap_result_ = 0, parent_result_ = 0;
};

}  // namespace wss::io::rbd
