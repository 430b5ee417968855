// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/poller.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/log.h"
#include "lib/fabric/verbs/connection.h"
#include "lib/fabric/verbs/listener.h"
#include "lib/fabric/verbs/tag.h"

namespace wss::fabric::verbs {

// Sources of the epoll descriptor.
enum Watched : uint32_t { kCompletionChannel, kEventChannel, kTimer, kDevice, kLookUp };

// Connection events per turn. Connecting is slow anyway, and a burst of connects must not delay I/O.
constexpr size_t kCmEventsPerTurn = 16;

VerbsPoller::VerbsPoller(std::shared_ptr<Device> device)
    : device_(std::move(device)), completions_(*device_) {}

Result<std::unique_ptr<VerbsPoller>> VerbsPoller::create(std::shared_ptr<Device> device) {
    std::unique_ptr<VerbsPoller> poller(new VerbsPoller(std::move(device)));
    WSS_TRY(poller->set_up());
    return poller;
}

static Status set_nonblocking(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return Status::from_errno(errno, "an RDMA event channel cannot be made non-blocking");
    return Status::ok();
}

// The lower half of an event's data is its kind, the upper half is a connection's tag.
constexpr int kTagShift = 32;

Status VerbsPoller::watch(int fd, uint32_t kind, uint32_t tag) {
    epoll_event event{.events = EPOLLIN | (kind == kLookUp ? EPOLLONESHOT : 0u),
                      .data = {.u64 = kind | uint64_t{tag} << kTagShift}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        return Status::from_errno(errno, "an RDMA event channel cannot be watched");
    return Status::ok();
}

Status VerbsPoller::set_up() {
    channel_.reset(rdma_create_event_channel());
    if (channel_ == nullptr)
        return Status::from_errno(errno, "/dev/infiniband/rdma_cm cannot be opened (modprobe rdma_ucm)");
    WSS_TRY(completions_.set_up());
    timer_ = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    if (!timer_ || !epoll_)
        return Status::from_errno(errno, "cannot create the file descriptors of a poller (ulimit -n)");
    WSS_TRY(set_nonblocking(channel_->fd));
    WSS_TRY(set_nonblocking(completions_.fd()));
    WSS_TRY(watch(channel_->fd, kEventChannel));
    WSS_TRY(watch(completions_.fd(), kCompletionChannel));
    WSS_TRY(watch(timer_.get(), kTimer));
    return watch(device_->context()->async_fd, kDevice);
}

VerbsPoller::~VerbsPoller() {
    WSS_ASSERT(free_entries_.size() == entries_.size(), "a poller outlives its connections");
}

Result<std::unique_ptr<Listener>> VerbsPoller::listen(const Address& address, ListenHandler& handler) {
    return VerbsListener::create(*this, address, handler);
}

Result<std::unique_ptr<Connection>> VerbsPoller::connect(const Address& address,
                                                         std::span<const std::byte> data,
                                                         const ConnectionOptions& options,
                                                         ConnectionHandler& handler) {
    return VerbsConnection::connect(*this, address, data, options, handler);
}

Result<VerbsPoller::Place> VerbsPoller::attach(VerbsConnection& connection, uint32_t completions) {
    auto share = completions_.reserve(completions);
    if (!share) return share.status();
    if (free_entries_.empty()) {
        if (entries_.size() > kTagIndexMax)
            return failure(Code::kExhausted, "a poller has at most {} connections", entries_.size());
        free_entries_.push_back(static_cast<uint32_t>(entries_.size()));
        entries_.emplace_back();
    }
    uint32_t index = free_entries_.back();
    free_entries_.pop_back();
    entries_[index].connection = &connection;
    Place place;
    place.poller_ = this;
    place.tag_ = make_tag(index, entries_[index].generation);
    place.completions_ = std::move(*share);
    return place;
}

void VerbsPoller::detach(uint32_t tag) noexcept {
    uint32_t index = tag_index(tag);
    entries_[index].connection = nullptr;
    entries_[index].generation = (entries_[index].generation + 1) & kTagGenerationMask;
    free_entries_.push_back(index);
}

void VerbsPoller::watch_deadline(Nanoseconds deadline) {
    if (deadline >= earliest_) return;
    earliest_ = deadline;
    itimerspec when{};
    when.it_value.tv_sec = deadline.count / from_s(1).count;
    when.it_value.tv_nsec = deadline.count % from_s(1).count;
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

size_t VerbsPoller::expire() noexcept {
    uint64_t expirations;
    [[maybe_unused]] ssize_t drained = read(timer_.get(), &expirations, sizeof expirations);
    Nanoseconds now = SystemClock().now();
    size_t expired = 0;
    earliest_ = kNever;
    // The loop uses an index, because on_deadline() may add connections.
    for (size_t i = 0; i < entries_.size(); ++i) {
        VerbsConnection* connection = entries_[i].connection;
        if (connection == nullptr) continue;
        if (connection->deadline() <= now) {
            connection->on_deadline();
            ++expired;
        }
        watch_deadline(connection->deadline());
    }
    return expired;
}

void VerbsPoller::finish_soon(VerbsConnection& connection) {
    finished_.push_back(connection);
}

size_t VerbsPoller::finish_closed() noexcept {
    size_t count = 0;
    while (VerbsConnection* connection = finished_.pop_front()) {
        connection->finish();  // the last call: may destroy the connection
        ++count;
    }
    return count;
}

Status VerbsPoller::watch_look_up(uint32_t tag, int fd) {
    return watch(fd, kLookUp, tag);
}

size_t VerbsPoller::looked_up(uint32_t tag) noexcept {
    VerbsConnection* connection = find(tag);
    if (connection == nullptr) return 0;
    connection->on_looked_up();
    return 1;
}

size_t VerbsPoller::check_events() noexcept {
    epoll_event ready[4];
    int count = epoll_wait(epoll_.get(), ready, 4, 0);
    size_t events = 0;
    for (int i = 0; i < count; ++i) {
        switch (static_cast<uint32_t>(ready[i].data.u64)) {
            case kCompletionChannel:
                completions_.take_events();
                break;
            case kEventChannel:
                events += take_cm_events();
                break;
            case kTimer:
                events += expire();
                break;
            case kDevice:
                events += take_device_events();
                break;
            case kLookUp:
                events += looked_up(static_cast<uint32_t>(ready[i].data.u64 >> kTagShift));
                break;
        }
    }
    return events;
}

static void copy(const rdma_cm_event& from, CmEvent& to) {
    to.type = from.event;
    to.status = from.status;
    to.id = from.id;
    to.initiator_depth = from.param.conn.initiator_depth;
    to.responder_resources = from.param.conn.responder_resources;
    to.length = from.param.conn.private_data == nullptr ? 0 : from.param.conn.private_data_len;
    if (to.length > 0) memcpy(to.bytes.data(), from.param.conn.private_data, to.length);
}

size_t VerbsPoller::take_cm_events() noexcept {
    size_t events = 0;
    rdma_cm_event* event = nullptr;
    while (events < kCmEventsPerTurn && rdma_get_cm_event(channel_.get(), &event) == 0) {
        CmEvent copied;
        copy(*event, copied);
        auto* handler = static_cast<CmHandler*>(copied.id->context);
        rdma_ack_cm_event(event);
        if (handler != nullptr) handler->on_cm_event(copied);
        ++events;
    }
    return events;
}

// All pollers of a device read its events. Each event goes only to the poller that reads it first.
size_t VerbsPoller::take_device_events() noexcept {
    size_t events = 0;
    ibv_async_event event;
    while (events < kCmEventsPerTurn && ibv_get_async_event(device_->context(), &event) == 0) {
        // Events of a queue pair also arrive through its completions and connection events.
        if (event.event_type == IBV_EVENT_CQ_ERR)
            log::error("{}: a completion queue overran: a bug, please report it", device_->name());
        else if (event.event_type == IBV_EVENT_DEVICE_FATAL || event.event_type == IBV_EVENT_PORT_ERR)
            log::warning("{}: {}", device_->name(), ibv_event_type_str(event.event_type));
        ibv_ack_async_event(&event);
        ++events;
    }
    return events;
}

}  // namespace wss::fabric::verbs
