// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/lock_watch.h"

#include <utility>

namespace wss::io::rbd {

LockWatch::LockWatch(rados_t cluster, rados_ioctx_t pool, std::string header, uint64_t former)
    : cluster_(cluster),
      pool_(pool),
      header_(std::move(header)),
      self_(rados_get_instance_id(cluster)),
      former_(former) {
    error_ = -rados_watch2(pool_, header_.c_str(), &cookie_, notified, broken, this);
}

LockWatch::~LockWatch() {
    if (error_ != 0) return;
    rados_unwatch2(pool_, cookie_);
    rados_watch_flush(cluster_);  // after this no callback runs
}

// One OSD sends the notifications of a header and the reply to the client that takes its lock, in order. So
// when that reply has arrived, librados has received all earlier notifications.
bool LockWatch::saw_another() {
    if (error_ != 0 || rados_watch_check(pool_, cookie_) < 0) return true;
    rados_watch_flush(cluster_);
    return saw_another_.load();
}

// The notifying client waits until every watcher has acknowledged.
void LockWatch::notified(void* watch, uint64_t notice, uint64_t cookie, uint64_t client, void*, size_t) {
    auto& self = *static_cast<LockWatch*>(watch);
    if (client != self.self_ && client != self.former_) self.saw_another_.store(true);
    rados_notify_ack(self.pool_, self.header_.c_str(), notice, cookie, nullptr, 0);
}

void LockWatch::broken(void* watch, uint64_t, int) {
    static_cast<LockWatch*>(watch)->saw_another_.store(true);
}

}  // namespace wss::io::rbd
