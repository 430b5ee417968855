// SPDX-License-Identifier: Apache-2.0
// The object map of an image says which of its objects exist; those that do not are zeroes for librbd, which
// does not ask Ceph for them.
//
// Before librbd writes to an object that does not exist it enters it into the map. If that fails, it marks
// the map as invalid, in its memory and then on the image's header. If that fails as well, it nevertheless
// goes on: this client sees the object, and the next one, which reads map and header, does not. Operations
// fail like this when Ceph is silent for longer than osd_timeout. So this client looks after the header
// itself:
//
//   kTrusted   no request has been with librbd for osd_timeout, so that nothing can have failed in this way
//   kDoubted   one has, or the header was silent for as long. What librbd reports as written waits until the
//              header is marked, and fails after osd_timeout
//   kMarked    the header says that the map is invalid: nobody uses it. `rbd object-map rebuild` ends that
//
// What fails at once (a full pool, a missing capability) leaves its trace in librbd's memory, where the
// keeper looks.
#include <algorithm>

#include "lib/base/log.h"
#include "lib/io/rbd/plugin/client.h"
#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr uint64_t kInvalid = RBD_FLAG_OBJECT_MAP_INVALID | RBD_FLAG_FAST_DIFF_INVALID;
constexpr const char* kMark = "set_flags";
// librados' clock is coarse: its limits may end that much earlier.
constexpr Nanoseconds kMargin = from_ms(250);
constexpr Nanoseconds kTwoLooks = from_s(2);

// What it is called with: the flags, which of them are set, and of what: the image, not a snapshot.
std::array<char, 24> marking() {
    std::array<char, 24> input{};
    size_t at = 0;
    for (const uint64_t word : {kInvalid, kInvalid, uint64_t{LIBRADOS_SNAP_HEAD}})
        for (unsigned shift = 0; shift < 64; shift += 8)
            input[at++] = static_cast<char>(word >> shift & 0xff);
    return input;
}
const std::array<char, 24> kMarking = marking();

}  // namespace

// A queue notes that a request has ended after it has looked here: one that has just ended counts, too.
void Client::look_at_map(Nanoseconds now) noexcept {
    const int64_t limit = (now - from_s(options_.osd_timeout) + kMargin).count;
    for (const Progress* queue = queues_.load(std::memory_order_acquire); queue != nullptr;
         queue = queue->next) {
        const int64_t begun = queue->begun.load(std::memory_order_acquire);
        if (begun != 0 && begun <= limit) return doubt_map();
    }
}

// Something may have timed out.
void Client::doubt_map() noexcept {
    if (read_only_ || !options_.is_head()) return;
    may_come_late_.store(true);
    Map trusted = Map::kTrusted;
    if (!maps_objects_.load() || !map_.compare_exchange_strong(trusted, Map::kDoubted)) return;
    std::lock_guard lock(keeper_lock_);
    urgent_ = true;
    keeper_wake_.notify_one();
}

// librbd, in its memory. Blocks when the header has changed.
bool Client::knows_of_invalid_map() const {
    uint64_t flags = 0;
    return rbd_get_flags(image_, &flags) >= 0 && (flags & RBD_FLAG_OBJECT_MAP_INVALID) != 0;
}

// Blocks. 0 or the negative errno.
int Client::mark_map() const {
    return rados_exec(pool_, header_.c_str(), "rbd", kMark, kMarking.data(), kMarking.size(), nullptr, 0);
}

// With the lock. A map that librbd could not read is invalid in its memory alone.
Status Client::begin_map() {
    if (read_only_ || !maps_objects_.load() || !knows_of_invalid_map()) return Status::ok();
    if (int result = mark_map(); result < 0)
        return refusal(-result, "cannot mark the object map of the image as invalid");
    map_.store(Map::kMarked);
    log::warning("rbd:{}: the object map of the image is invalid and is not used: see rbd object-map rebuild",
                 options_.name());
    return Status::ok();
}

// A look is over. What others ask of this image, to flatten it or to have the map rebuilt, this client's
// librbd does for them: no request of ours sees that fail. If the header was silent for so long that a mark
// may have failed, there may have been one.
void Client::keep_map() {
    const Nanoseconds limit = from_s(options_.osd_timeout);
    if (boot_time() - look_began_ >= std::max(Nanoseconds{limit.count / 2}, limit - kTwoLooks)) doubt_map();
    const std::optional<uint64_t> flags = look_.flags();
    if (!flags || !options_.is_head() || read_only_ || lost()) return;
    maps_objects_.store(look_.maps_objects());
    Map trusted = Map::kTrusted, marked = Map::kMarked;
    if ((*flags & RBD_FLAG_OBJECT_MAP_INVALID) != 0) {
        if (map_.compare_exchange_strong(trusted, Map::kMarked))
            log::warning("rbd:{}: the object map of the image has become invalid: see rbd object-map rebuild",
                         options_.name());
    } else if (!map_.compare_exchange_strong(marked, Map::kTrusted) && knows_of_invalid_map()) {
        doubt_map();
    }
}

void Client::begin_to_mark_map() {
    {
        std::lock_guard lock(keeper_lock_);
        if (lost() || std::exchange(marks_map_, true)) return;
    }
    auto over = [](const Question& asked, int result) {
        Client& self = *asked.client;
        Map doubted = Map::kDoubted;
        if (result >= 0 && self.map_.compare_exchange_strong(doubted, Map::kMarked))
            log::error(
                "rbd:{}: Ceph was silent for longer than osd_timeout: the object map of the image is marked "
                "as "
                "invalid, and is not used until rbd object-map rebuild {}",
                self.options_.name(), self.options_.name());
        std::lock_guard lock(self.keeper_lock_);
        self.marks_map_ = false;
    };
    if (ask({.client = this, .method = kMark, .input = kMarking, .over = over})) return;
    std::lock_guard lock(keeper_lock_);
    marks_map_ = false;
}

// Nothing is written any more.
void Client::end_map() {
    if (!maps_objects_.load() || read_only_ || lost()) return;
    if (!doubts_map() && (map_.load() == Map::kMarked || !knows_of_invalid_map())) return;
    if (int result = mark_map(); result < 0)
        log::error(
            "rbd:{}: the object map of the image may lack what was written last, and is not marked as "
            "invalid "
            "({}): rbd object-map rebuild {} before the image is used again",
            options_.name(), refusal(-result, "its header").to_string(), options_.name());
}

}  // namespace wss::io::rbd
