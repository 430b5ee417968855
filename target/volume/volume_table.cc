// SPDX-License-Identifier: Apache-2.0
// One reactor's table of volumes.
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "target/volume/volume.h"

namespace wss::volume {

namespace {

// Removes the descriptor from epoll, because it may stay open after the queue is destroyed.
void end_queue(int epoll_fd, std::unique_ptr<io::Queue>& queue) noexcept {
    if (queue == nullptr) return;
    if (const int fd = queue->fd(); fd >= 0) epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, nullptr);
    queue.reset();
}

}  // namespace

VolumeTable::VolumeTable(reactor::Reactor& reactor)
    : reactor_(reactor), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

VolumeTable::~VolumeTable() {
    reactor_.remove(*this);
}

size_t VolumeTable::poll() noexcept {
    size_t events = 0;
    for (OpenVolume* volume : polled_) events += volume->queue_->poll();
    if (!closing_.empty()) events += reap_closing();
    return events;
}

bool VolumeTable::arm() noexcept {
    bool quiet = true;
    for (OpenVolume* volume : polled_) quiet &= volume->queue_->arm();
    // A volume whose last user left after our poll() is reaped by the next poll().
    closing_.for_each([&](OpenVolume& volume) { quiet &= !volume.idle(); });
    return quiet;
}

Status VolumeTable::open(OpenVolume& volume) {
    Status allowed;
    observers_.for_each([&](Observer& observer) {
        if (allowed) allowed = observer.may_open(volume.volume());
    });
    WSS_TRY(allowed);
    auto queue = volume.volume().backend().open_queue(reactor_);
    if (!queue) return queue.status();
    int fd = (*queue)->fd();
    if (fd >= 0 && !epoll_)
        return failure(Code::kExhausted,
                       "volume {}: no descriptor was left at the start to watch its queue (ulimit -n)",
                       volume.volume().name());
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &volume}};
    if (fd >= 0 && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        return Status::from_errno(errno,
                                  fmt::format("volume {}: cannot watch its queue", volume.volume().name()));
    volume.queue_ = std::move(*queue);
    return Status::ok();
}

void VolumeTable::publish(OpenVolume& volume) {
    uint32_t lun = volume.volume().lun();
    if (by_lun_.size() <= lun) by_lun_.resize(lun + 1);
    WSS_ASSERT(by_lun_[lun] == nullptr, "a LUN belongs to one volume at a time");
    by_lun_[lun] = &volume;
    polled_.push_back(&volume);
    ++count_;
    notify(Change::kAdded, volume);
}

void VolumeTable::close(OpenVolume& volume, std::function<void()> gone) {
    WSS_ASSERT(!volume.closing_, "a volume closes once");
    volume.closing_ = true;
    uint32_t lun = volume.volume().lun();
    bool published = lun < by_lun_.size() && by_lun_[lun] == &volume;
    if (!published) {
        end_queue(epoll_.get(), volume.queue_);
        return gone();
    }
    volume.gone_ = std::move(gone);
    by_lun_[lun] = nullptr;
    --count_;
    closing_.push_back(volume);
    notify(Change::kRemoved, volume);
}

size_t VolumeTable::reap_closing() noexcept {
    size_t reaped = 0;
    closing_.for_each([&](OpenVolume& volume) {
        if (!volume.idle()) return;
        volume.unlink();
        std::erase(polled_, &volume);
        end_queue(epoll_.get(), volume.queue_);
        // `volume` may be freed as soon as this is called.
        std::function<void()> gone = std::move(volume.gone_);
        gone();
        ++reaped;
    });
    return reaped;
}

void VolumeTable::notify(Change change, OpenVolume& volume) {
    observers_.for_each([&](Observer& observer) { observer.volume_changed(change, volume); });
}

void VolumeTable::fence(OpenVolume& volume, const std::shared_ptr<WriteFence>& fence) {
    observers_.for_each([&](Observer& observer) { observer.volume_fences(volume, fence); });
}

namespace {

// Calls `done` after the last observer's answer, with the first failure or ok.
struct All {
    explicit All(std::function<void(Status)> when_all) : done(std::move(when_all)) {}
    ~All() { done(std::move(first)); }
    const std::function<void(Status)> done;
    Status first;
};

}  // namespace

void VolumeTable::shrink(OpenVolume& volume, uint64_t bytes, std::function<void(Status)> done) {
    auto all = std::make_shared<All>(std::move(done));
    observers_.for_each([&](Observer& observer) {
        observer.volume_shrinks(volume, std::make_shared<Shrink>(bytes, [all](Status status) {
                                    if (!status && all->first) all->first = std::move(status);
                                }));
    });
}

void VolumeTable::reopen(OpenVolume& volume, bool give_up_dirty, bool look_only,
                         std::function<void(Status)> done) {
    auto all = std::make_shared<All>(std::move(done));
    observers_.for_each([&](Observer& observer) {
        auto answer = [all](Status status) {
            if (!status && all->first) all->first = std::move(status);
        };
        observer.volume_reopens(volume, std::make_shared<Reopening>(give_up_dirty, look_only, answer));
    });
}

}  // namespace wss::volume
