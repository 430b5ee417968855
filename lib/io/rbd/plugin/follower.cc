// SPDX-License-Identifier: Apache-2.0
// The follower, the second thread of a client. It makes the calls of librbd that the keeper's observations
// require.
//
// Calls of librbd block while it reads a changed header. Before that librbd finishes requests of other
// clients, which may wait for a silent OSD (a snapshot waits for all writes). The keeper must not wait that
// long, because its looks confirm that this client still owns the image.
#include "lib/base/log.h"
#include "lib/io/rbd/plugin/client.h"

namespace wss::io::rbd {

void Client::follow() {
    std::unique_lock lock(keeper_lock_);
    for (;;) {
        follower_wake_.wait(lock, [this] { return stopping_ || news_.any(); });
        if (stopping_) return;
        const News news = std::exchange(news_, {});
        lock.unlock();
        // A step that throws is repeated with the next news of its kind.
        const Status followed = caught([&] {
            follow_up(news);
            return Status::ok();
        });
        const std::string failure = followed ? "" : followed.text();
        if (!followed && failure != follower_failure_)
            log::error("rbd:{}: updating the state of the image failed: {}", options_.name(), failure);
        follower_failure_ = failure;
        lock.lock();
    }
}

void Client::follow_up(const News& news) {
    if (news.looked) keep_map(news);  // first: later looks do not show a mark that was removed
    if (news.changed) have_header_read();
    if (news.changed) follow_throttles();
    if (doubts_map()) settle_doubts();
}

// librbd reads a changed header at the next call. If the feature exclusive-lock was disabled, librbd releases
// the lock, and does not take it again when the feature is enabled again, because others may have written
// meanwhile.
void Client::have_header_read() const {
    uint64_t overlap = 0;
    (void)rbd_get_overlap(image_, &overlap);
}

// Reads the limits of the image again, because librbd applies changed ones at once.
void Client::follow_throttles() {
    const Result<Settings> found = settings();
    if (found) return throttles_.read(*found, SystemClock().now());
    log::debug("rbd:{}: {}", options_.name(), found.status().to_string());
}

}  // namespace wss::io::rbd
