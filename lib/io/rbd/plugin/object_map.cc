// SPDX-License-Identifier: Apache-2.0
// The object map of an image records which of its objects exist. librbd reads missing objects as zeroes,
// without a request to Ceph.
//
// Before librbd writes to a missing object, it adds the object to the map. If that fails, it marks the map as
// invalid, in its memory and then on the image's header. If the mark on the header fails, too (the
// capabilities for the header's pool were revoked), the change fails, but later changes succeed: this librbd
// no longer uses the map. The next client reads map and header, uses the map, and would not see these
// changes.
//
// So after a failed change the map is in doubt. Changes that librbd reports as done then wait until the
// follower has checked whether librbd considers the map invalid, and if so, has marked the header itself.
// librbd loses this knowledge when it reads the header again. So after a missing permission, the only known
// failure that concerns the header alone, the follower marks the header without checking.
//
// Changes by librbd for other clients (rbd flatten) fail without notice: the follower checks after each look.
//
// A rebuild of the map (rbd object-map rebuild) may lose the entries of objects that are created meanwhile.
// So a map that loses its mark while the image is open is marked again, the last time right after the lock is
// released: until then librbd may complete a rebuild for another client.
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

// The input of set_flags: the flags, the mask of flags to set, and the id of the snapshot (here the image).
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

// Called after a change failed with `error` (0: librbd reports an invalid map).
void Client::doubt_map(int error) noexcept {
    if (read_only_ || !options_.is_head() || !maps_objects_.load() || lost()) return;
    // must_mark_ is set before doubts_ grows, because settle_doubts() reads it for each doubt.
    if (error == EPERM || error == EACCES) must_mark_.store(true);
    doubts_.fetch_add(1);
    std::lock_guard lock(keeper_lock_);
    news_.doubted = true;
    follower_wake_.notify_one();
}

// True if librbd's memory marks the map as invalid. Blocks when the header has changed.
bool Client::knows_of_invalid_map() const {
    uint64_t flags = 0;
    return rbd_get_flags(image_, &flags) >= 0 && (flags & RBD_FLAG_OBJECT_MAP_INVALID) != 0;
}

// True if librbd can read the flags, and they do not have the mark. Blocks when the header has changed.
bool Client::misses_mark() const {
    uint64_t flags = 0;
    return rbd_get_flags(image_, &flags) >= 0 && (flags & RBD_FLAG_OBJECT_MAP_INVALID) == 0;
}

// Blocks. Returns 0 or a negative errno. set_flags alone would create the header of a deleted image again.
int Client::set_flags(std::span<const char> input) const {
    rados_write_op_t change = rados_create_write_op();
    rados_write_op_assert_exists(change);
    rados_write_op_exec(change, "rbd", kSetFlags, input.data(), input.size(), nullptr);
    const int result = rados_write_op_operate(change, pool_, header_.c_str(), nullptr, 0);
    rados_release_write_op(change);
    return result;
}

int Client::mark_map() const {
    return set_flags(kMarking);
}

// A change of the header without an effect.
int Client::change_nothing() const {
    return set_flags(kNothing);
}

// Blocks. Reads the header, or if that is not possible, uses the last look.
bool Client::is_marked() const {
    std::array<char, 8> flags{};
    const int bytes = rados_exec(pool_, header_.c_str(), "rbd", "get_flags", look_input_.data(),
                                 look_input_.size(), flags.data(), flags.size());
    if (bytes < static_cast<int>(flags.size())) return was_marked_at_look_.load();
    return (flags[0] & RBD_FLAG_OBJECT_MAP_INVALID) != 0;
}

// Checks whether Ceph permits changes to the image. Blocks. A full cluster is not an error, because it
// accepts changes that free space.
Status Client::check_changes() {
    WSS_TRY(check_usable());
    const int result = change_nothing();
    if (result >= 0 || result == -ENOSPC || result == -EDQUOT) return Status::ok();
    if (result == -ESHUTDOWN) lose(Loss::kBlocklisted);
    if (result == -EPERM || result == -EACCES)
        return failure(
            Code::kPermission,
            "Ceph does not permit client.{} to change the image: see its capabilities (ceph auth get)",
            options_.user);
    return refusal(-result, fmt::format("rbd:{}: cannot change the image", options_.name()));
}

Status Client::may_resize() {
    // A resize holds size_lock_ until Ceph answers it, and the release of a lost image until it is over.
    WSS_TRY(check_usable());
    if (resizing_.load() != Resizing::kNo) return resize_not_over();
    std::lock_guard lock(size_lock_);
    if (image_ == nullptr) return failure(Code::kClosed, "rbd:{}: the image is closed", options_.name());
    return check_changes();
}

// Requires the image's lock: only the owner marks the map. A map that librbd could not read is marked only in
// librbd's memory.
Status Client::begin_map() {
    uint64_t features = 0;
    if (int result = rbd_get_features(image_, &features); result < 0)
        return refusal(-result, "cannot read the features of the image");
    maps_objects_.store((features & RBD_FEATURE_OBJECT_MAP) != 0);
    if (read_only_ || !maps_objects_.load() || !knows_of_invalid_map()) return Status::ok();
    if (int result = mark_map(); result < 0)
        return refusal(-result, "cannot mark the object map of the image as invalid");
    marked_map_ = true;
    was_marked_.store(true);
    log::warning("rbd:{}: the object map of the image is invalid and is not used: {}", options_.name(),
                 how_to_rebuild());
    return Status::ok();
}

// Takes the flags of the header from looks.
void Client::keep_map(const News& news) {
    if (lost() || ended_marks_.load()) return;
    const bool marked = news.is_marked();
    const bool was_marked = marked_map_ || news.was_marked || news.marks != marks_known_;
    marks_known_ = news.marks;
    // The flags may outlive the feature.
    if (marked && maps_objects_.load()) {
        if (misses_mark()) notify_librbd();
        if (!std::exchange(marked_map_, true))
            log::warning("rbd:{}: the object map of the image has become invalid and is not used: {}",
                         options_.name(), how_to_rebuild());
    }
    if (marked) return;
    marked_map_ = false;
    if (was_marked && maps_objects_.load()) {
        log::warning(
            "rbd:{}: the object map of the image was rebuilt while the image is written, and may lack "
            "objects: it is being marked as invalid again; {}",
            options_.name(), how_to_rebuild());
        must_mark_.store(true);
        return doubt_map(0);
    }
    if (knows_of_invalid_map()) doubt_map(0);
}

std::string Client::how_to_rebuild() const {
    return fmt::format("rbd object-map rebuild {} while no client has the image open", options_.name());
}

bool Client::needs_mark() const {
    return must_mark_.load() || knows_of_invalid_map();
}

// Changes that fail while this runs are new doubts.
void Client::settle_doubts() {
    // A mark in flight may be rejected, and must_mark_ is only known after that.
    if (marks_map_.load()) return;
    const uint64_t doubts = doubts_.load();
    if (!maps_objects_.load() || !needs_mark()) return settled_.store(doubts);
    std::lock_guard lock(marks_lock_);
    if (lost() || ended_marks_.load()) return;
    marks_map_.store(true);
    // Cleared before the mark is sent: later failures need another mark.
    must_mark_.store(false);
    auto over = [this, doubts](int result, std::span<const char>) {
        if (result >= 0) {
            settled_.store(doubts);
            was_marked_.store(true);
            marks_.fetch_add(1);
        } else {
            must_mark_.store(true);
        }
        if (result != -ECANCELED) note_mark(-std::min(result, 0));
        marks_map_.store(false);
        // A mark that was rejected or never answered is repeated after the next look.
        if (result < 0 || !doubts_map()) return;
        std::lock_guard locked(keeper_lock_);
        news_.doubted = true;
        follower_wake_.notify_one();
    };
    if (ask(kSetFlags, kMarking, over)) return;
    must_mark_.store(true);
    marks_map_.store(false);
}

// Records the result of a mark: 0 or an errno. Changes fail until a mark succeeds.
void Client::note_mark(int error) noexcept {
    if (mark_error_.exchange(error) == error) return;
    if (error == 0)
        log::info("rbd:{}: the object map of the image is marked as invalid: changes continue",
                  options_.name());
    else
        log::error("rbd:{}: {}", options_.name(), unmarked(error));
}

std::string Client::unmarked(int error) const {
    return fmt::format(
        "changes fail: Ceph refuses to mark the object map as invalid ({}): see ceph auth get client.{}",
        std::generic_category().message(error), options_.user);
}

// Called before the lock is released. Runs once, because the release may report an error although it
// succeeded. The header object processes earlier marks before the release.
void Client::end_marks() {
    {
        std::lock_guard lock(marks_lock_);
        if (ended_marks_.exchange(true)) return;
    }
    if (!lost() && !read_only_ && maps_objects_.load() && (doubts_map() || was_marked_.load()))
        note_last_mark(mark_map());
}

// Called when writing has ended. The map may have been rebuilt since the last look set marked_map_: librbd,
// which makes the rebuild for its caller, then no longer considers the map invalid.
void Client::end_map() {
    if (!maps_objects_.load() || read_only_ || lost() || ended_marks_.load()) return;
    // The follower has ended, perhaps before it took the last news.
    const bool marked = marked_map_ || news_.was_marked || news_.is_marked() || marks_.load() != marks_known_;
    const bool invalid = knows_of_invalid_map();
    if (marked || invalid || must_mark_.load()) was_marked_.store(true);
    const bool as_found = invalid == marked && !(invalid && doubts_map());
    if (as_found && !must_mark_.load()) return;
    note_last_mark(mark_map());
}

// Called after the lock was released. A mark that is still there stays, and for the next owner it is
// harmless.
void Client::mark_rebuilt_map() {
    if (was_marked_.load() && maps_objects_.load() && !lost()) note_last_mark(mark_map());
}

void Client::note_last_mark(int result) {
    if (result >= 0 || result == -ENOENT || is_marked() || last_mark_failed_.exchange(true)) return;
    log::error(
        "rbd:{}: the object map of the image may lack the last writes, and is not marked as invalid ({}): "
        "{}, before it is used again",
        options_.name(), refusal(-result, "its header").to_string(), how_to_rebuild());
}

}  // namespace wss::io::rbd
