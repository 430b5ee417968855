// SPDX-License-Identifier: Apache-2.0
// The object map of an image says which of its objects exist; those that do not are zeroes for librbd, which
// does not ask Ceph for them.
//
// Before librbd writes to an object that does not exist it enters it into the map. If that fails, it marks
// the map as invalid, in its memory and then on the image's header. If that fails as well (the capabilities
// of the header's pool were taken away), the change fails, and those that follow succeed: this client does
// not use the map any more, and the next one, which reads map and header, does. So when a change has failed,
// the map is doubted: what librbd reports as written waits until the follower has asked librbd whether the
// map is invalid, and if so has marked the header itself. librbd forgets what it knows when it reads the
// header anew. So after a refusal, the one way known in which only the header may not be written, it is not
// asked.
//
// What librbd changes for others (rbd flatten) fails without notice: the follower asks after each look.
#include <algorithm>
#include <cerrno>
#include <system_error>

#include "lib/base/log.h"
#include "lib/io/rbd/plugin/client.h"
#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr uint64_t kInvalid = RBD_FLAG_OBJECT_MAP_INVALID | RBD_FLAG_FAST_DIFF_INVALID;
constexpr const char* kSetFlags = "set_flags";

// Its input: the flags, which of them are set, and of what: the image, not a snapshot.
std::array<char, 24> with_flags(uint64_t flags) {
    std::array<char, 24> input{};
    size_t at = 0;
    for (const uint64_t word : {flags, flags, uint64_t{LIBRADOS_SNAP_HEAD}})
        for (unsigned shift = 0; shift < 64; shift += 8)
            input[at++] = static_cast<char>(word >> shift & 0xff);
    return input;
}
const std::array<char, 24> kMarking = with_flags(kInvalid), kNothing = with_flags(0);

}  // namespace

// A change has failed with that errno.
void Client::doubt_map(int error) noexcept {
    if (read_only_ || !options_.is_head() || !maps_objects_.load() || lost()) return;
    // Before it is a doubt, which is settled by what is known of it.
    if (error == EPERM || error == EACCES) must_mark_.store(true);
    doubts_.fetch_add(1);
    std::lock_guard lock(keeper_lock_);
    news_.doubted = true;
    follower_wake_.notify_one();
}

// librbd, in its memory. Blocks when the header has changed.
bool Client::knows_of_invalid_map() const {
    uint64_t flags = 0;
    return rbd_get_flags(image_, &flags) >= 0 && (flags & RBD_FLAG_OBJECT_MAP_INVALID) != 0;
}

// Blocks. 0 or the negative errno.
int Client::mark_map() const {
    return rados_exec(pool_, header_.c_str(), "rbd", kSetFlags, kMarking.data(), kMarking.size(), nullptr, 0);
}

// Blocks. A cluster that is full takes what frees space.
Status Client::check_changes() const {
    if (unusable()) return failure(Code::kClosed, "rbd:{}: {}", options_.name(), trouble());
    const int result =
        rados_exec(pool_, header_.c_str(), "rbd", kSetFlags, kNothing.data(), kNothing.size(), nullptr, 0);
    if (result >= 0 || result == -ENOSPC || result == -EDQUOT) return Status::ok();
    if (result == -EPERM || result == -EACCES)
        return failure(
            Code::kPermission,
            "Ceph does not permit client.{} to change the image: see its capabilities (ceph auth get)",
            options_.user);
    return refusal(-result, fmt::format("rbd:{}: cannot change the image", options_.name()));
}

Status Client::may_resize() {
    // A resize holds the lock until Ceph answers it.
    if (resizing_.load() != Resizing::kNo) return resize_not_over();
    std::lock_guard lock(size_lock_);
    if (image_ == nullptr) return failure(Code::kClosed, "rbd:{}: it is closed", options_.name());
    return check_changes();
}

// With the lock. A map that librbd could not read is invalid in its memory alone.
Status Client::begin_map() {
    if (read_only_ || !maps_objects_.load() || !knows_of_invalid_map()) return Status::ok();
    if (int result = mark_map(); result < 0)
        return refusal(-result, "cannot mark the object map of the image as invalid");
    marked_map_ = true;
    log::warning("rbd:{}: the object map of the image is invalid and is not used: see rbd object-map rebuild",
                 options_.name());
    return Status::ok();
}

// What the header says.
void Client::keep_map(uint64_t flags) {
    if (lost() || ended_marks_.load()) return;
    const bool marked = (flags & RBD_FLAG_OBJECT_MAP_INVALID) != 0;
    if (marked && !std::exchange(marked_map_, true))
        log::warning(
            "rbd:{}: the object map of the image has become invalid and is not used: see rbd object-map "
            "rebuild",
            options_.name());
    if (marked) return;
    marked_map_ = false;
    if (knows_of_invalid_map()) doubt_map(0);
}

bool Client::needs_mark() const {
    return must_mark_.load() || knows_of_invalid_map();
}

// What fails while it asks is another doubt.
void Client::settle_doubts() {
    // One that is under way may be refused, and what needs it is not known until then.
    if (marks_map_.load()) return;
    const uint64_t doubts = doubts_.load();
    if (!maps_objects_.load() || !needs_mark()) return settled_.store(doubts);
    std::lock_guard lock(marks_lock_);
    if (lost() || ended_marks_.load()) return;
    marks_map_.store(true);
    // A refusal from here on is another one.
    must_mark_.store(false);
    auto over = [this, doubts](int result, std::span<const char>) {
        if (result >= 0)
            settled_.store(doubts);
        else
            must_mark_.store(true);
        if (result != -ECANCELED) note_mark(-std::min(result, 0));
        marks_map_.store(false);
        // One that was refused, or never answered, is tried again after the next look.
        if (result < 0 || !doubts_map()) return;
        std::lock_guard locked(keeper_lock_);
        news_.doubted = true;
        follower_wake_.notify_one();
    };
    if (ask(kSetFlags, kMarking, over)) return;
    must_mark_.store(true);
    marks_map_.store(false);
}

// The answer to a mark: 0 or an errno. Until one succeeds changes fail.
void Client::note_mark(int error) noexcept {
    if (mark_error_.exchange(error) == error) return;
    if (error == 0)
        log::info("rbd:{}: the object map of the image is marked as invalid: changes go on", options_.name());
    else
        log::error("rbd:{}: {}", options_.name(), unmarked(error));
}

std::string Client::unmarked(int error) const {
    return fmt::format(
        "changes fail: Ceph refuses to mark the object map as invalid ({}): see ceph auth get client.{}",
        std::generic_category().message(error), options_.user);
}

// The keeper, before it releases the lock: once, for that may fail after it was done. One object takes the
// marks that were sent, and then the release.
void Client::end_marks() {
    {
        std::lock_guard lock(marks_lock_);
        if (ended_marks_.exchange(true)) return;
    }
    if (!lost() && !read_only_ && maps_objects_.load() && doubts_map()) (void)mark_map();
}

// Nothing is written any more. `marked_map_` is as old as the last look: the map may have been rebuilt.
void Client::end_map() {
    if (!maps_objects_.load() || read_only_ || lost() || ended_marks_.load()) return;
    if (marked_map_ && !must_mark_.load() && !doubts_map()) return;
    if (!needs_mark()) return;
    if (int result = mark_map(); result < 0)
        log::error(
            "rbd:{}: the object map of the image may lack what was written last, and is not marked as "
            "invalid ({}): rbd object-map rebuild {} before the image is used again",
            options_.name(), refusal(-result, "its header").to_string(), options_.name());
}

}  // namespace wss::io::rbd
