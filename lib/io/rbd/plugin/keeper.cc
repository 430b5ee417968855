// SPDX-License-Identifier: Apache-2.0
// What a client's own thread does: it follows the size of the image, notices that Ceph has shut the client
// out also when no request does, and reports requests that wait.
#include <cerrno>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/io/rbd/plugin/client.h"

namespace wss::io::rbd {

namespace {

constexpr uint32_t kBlock = 512;
constexpr auto kKeeperPeriod = std::chrono::seconds(1);
constexpr Nanoseconds kWaitWorthAWord = from_s(5);

}  // namespace

void Client::keep() {
    std::unique_lock lock(keeper_lock_);
    while (!stopping_) {
        keeper_wake_.wait_for(lock, kKeeperPeriod);
        if (stopping_) return;
        const bool changed = std::exchange(header_changed_, false);
        lock.unlock();
        if (changed) follow_size();
        look_at_header();
        if (blocklisted()) tell_lost();
        report_waiting();
        lock.lock();
    }
}

void Client::follow_size() {
    uint64_t before = 0, after = 0;
    {
        std::lock_guard lock(size_lock_);
        if (int result = rbd_get_size(image_, &after); result < 0) {
            if (result == -ESHUTDOWN) set_blocklisted();
            return;
        }
        after = after / kBlock * kBlock;
        before = size_.exchange(after, std::memory_order_acq_rel);
    }
    if (before == after) return;
    log::info("rbd:{}: the image was resized from {} to {}", options_.name(), readable_size(before),
              readable_size(after));
    std::lock_guard lock(changed_lock_);
    if (auto changed = changed_) changed(before, after);
}

std::pair<Nanoseconds, uint32_t> Client::waiting() const {
    int64_t oldest = 0;
    uint32_t requests = 0;
    std::lock_guard lock(queues_lock_);
    for (const auto& queue : queues_) {
        auto progress = queue.lock();
        if (progress == nullptr) continue;
        requests += progress->requests.load(std::memory_order_relaxed);
        const int64_t since = progress->oldest.load(std::memory_order_relaxed);
        if (since != 0 && (oldest == 0 || since < oldest)) oldest = since;
    }
    if (oldest == 0) return {Nanoseconds{}, 0};
    return {SystemClock().now() - Nanoseconds{oldest}, requests};
}

void Client::report_waiting() {
    const auto [time, requests] = waiting();
    const bool waits = time >= kWaitWorthAWord;
    if (waits == waiting_reported_) return;
    waiting_reported_ = waits;
    if (waits)
        log::warning(
            "rbd:{}: {} requests wait for Ceph, the oldest for {} s; each fails after {} s (osd_timeout)",
            options_.name(), requests, time.count / from_s(1).count, options_.osd_timeout);
    else
        log::info("rbd:{}: Ceph answers again", options_.name());
}

std::string Client::trouble() const {
    if (blocklisted()) return "blocklisted by Ceph: another client took the image";
    const auto [time, requests] = waiting();
    if (time < kWaitWorthAWord) return {};
    return fmt::format("waits for Ceph since {} s ({} requests)", time.count / from_s(1).count, requests);
}

// One small operation at a time, each period: its answer is the only sign for a client without requests.
void Client::look_at_header() {
    if (look_ == nullptr) {
        if (rados_aio_create_completion2(nullptr, nullptr, &look_) < 0) return;
        if (rados_aio_stat(pool_, header_.c_str(), look_, &header_size_, &header_time_) < 0) {
            rados_aio_release(look_);
            look_ = nullptr;
        }
        return;
    }
    if (rados_aio_is_complete(look_) == 0) return;
    if (rados_aio_get_return_value(look_) == -ESHUTDOWN) set_blocklisted();
    rados_aio_release(look_);
    look_ = nullptr;
}

void Client::end_look() {
    if (look_ == nullptr) return;
    rados_aio_wait_for_complete(look_);
    rados_aio_release(look_);
    look_ = nullptr;
}

void Client::tell_lost() {
    if (std::exchange(lost_told_, true)) return;
    std::lock_guard lock(changed_lock_);
    if (auto changed = changed_) changed(size(), 0);
}

}  // namespace wss::io::rbd
