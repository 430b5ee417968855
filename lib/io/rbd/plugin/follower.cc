// SPDX-License-Identifier: Apache-2.0
// What a client's second thread does: it asks librbd about what the keeper has noticed.
//
// librbd answers nothing while it reads the header anew, and for that it waits until what others asked for is
// done, which may wait for an OSD that is silent (a snapshot waits for all writes). The keeper must not: its
// looks show that the image is still ours.
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
        // What throws is tried again when there is news of its kind.
        const Status followed = caught([&] {
            follow_up(news);
            return Status::ok();
        });
        const std::string failure = followed ? "" : followed.text();
        if (!followed && failure != follower_failure_)
            log::error("rbd:{}: the follower of the image: {}", options_.name(), failure);
        follower_failure_ = failure;
        lock.lock();
    }
}

void Client::follow_up(const News& news) {
    if (news.changed) have_header_read();
    if (news.changed) follow_throttles();
    if (news.looked) keep_map(news.flags);
    if (doubts_map()) settle_doubts();
}

// librbd reads a changed header when it is asked the next time. It gives up the lock of an image whose
// feature was disabled, and does not take it back with that: others may have written without it.
void Client::have_header_read() const {
    uint64_t overlap = 0;
    (void)rbd_get_overlap(image_, &overlap);
}

// librbd follows them at once.
void Client::follow_throttles() {
    const Result<Settings> found = settings();
    if (found) return throttles_.read(*found, SystemClock().now());
    log::debug("rbd:{}: {}", options_.name(), found.status().to_string());
}

}  // namespace wss::io::rbd
