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

// Time between two checks of the devices.
constexpr Nanoseconds kCheckTick = from_s(1);

// Connection events per turn. Connecting is slow anyway, and a burst of connects must not delay I/O.
constexpr size_t kCmEventsPerTurn = 16;

VerbsPoller::VerbsPoller(std::shared_ptr<Devices> devices) : devices_(std::move(devices)) {}

Result<std::unique_ptr<VerbsPoller>> VerbsPoller::create(std::shared_ptr<Devices> devices) {
    std::unique_ptr<VerbsPoller> poller(new VerbsPoller(std::move(devices)));
    WSS_TRY(poller->set_up());
    return poller;
}

static Status set_nonblocking(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return Status::from_errno(errno, "an RDMA event channel cannot be made non-blocking");
    return Status::ok();
}

// The lower half of an event's data is its kind, the upper half is a connection's tag or a device's index.
constexpr int kNumberShift = 32;

Status VerbsPoller::watch(int fd, uint32_t kind, uint32_t number) {
    epoll_event event{.events = EPOLLIN | (kind == kLookUp ? EPOLLONESHOT : 0u),
                      .data = {.u64 = kind | uint64_t{number} << kNumberShift}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        return Status::from_errno(errno, "an RDMA event channel cannot be watched");
    return Status::ok();
}

Status VerbsPoller::set_up() {
    channel_.reset(rdma_create_event_channel());
    if (channel_ == nullptr)
        return Status::from_errno(errno, "/dev/infiniband/rdma_cm cannot be opened (modprobe rdma_ucm)");
    timer_ = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    if (!timer_ || !epoll_)
        return Status::from_errno(errno, "cannot create the file descriptors of a poller (ulimit -n)");
    WSS_TRY(set_nonblocking(channel_->fd));
    WSS_TRY(watch(channel_->fd, kEventChannel));
    WSS_TRY(watch(timer_.get(), kTimer));
    check_at_ = SystemClock().now() + kCheckTick;
    watch_deadline(check_at_);
    return Status::ok();
}

VerbsPoller::~VerbsPoller() {
    WSS_ASSERT(free_entries_.size() == entries_.size(), "a poller outlives its connections");
}

// --- devices ---

Result<PollerDevice*> VerbsPoller::use(rdma_cm_id& bound) {
    auto device = devices_->of(bound);
    if (!device) return device.status();
    if (PollerDevice* used = device_of(static_cast<uint32_t>((*device)->index()))) return used;
    auto fresh = std::make_unique<PollerDevice>(std::move(*device));
    WSS_TRY(set_up(*fresh));
    return used_.emplace_back(std::move(fresh)).get();
}

Status VerbsPoller::set_up(PollerDevice& device) {
    const Context& context = device.device->context();
    const auto index = static_cast<uint32_t>(device.device->index());
    for (size_t port = 0; port <= context.ports(); ++port) device.failures.push_back(context.failures(port));
    WSS_TRY(device.completions.set_up());
    WSS_TRY(set_nonblocking(device.completions.fd()));
    WSS_TRY(watch(device.completions.fd(), kCompletionChannel, index));
    return watch(context.event_fd(), kDevice, index);
}

PollerDevice* VerbsPoller::device_of(uint32_t index) noexcept {
    for (const auto& used : used_)
        if (used->device->index() == index) return used.get();
    return nullptr;
}

void VerbsPoller::lose_connections(const std::function<bool(const VerbsConnection&)>& lost,
                                   const Status& why) noexcept {
    for (const Entry& entry : entries_)
        if (entry.connection != nullptr && lost(*entry.connection)) entry.connection->on_lost(why);
}

void VerbsPoller::check_ports(PollerDevice& device) noexcept {
    const Context& context = device.device->context();
    for (size_t port = 1; port <= context.ports(); ++port) {
        const uint32_t failures = context.failures(port);
        if (std::exchange(device.failures[port], failures) == failures) continue;
        lose_connections(
            [&](const VerbsConnection& each) { return each.uses(device) && each.port() == port; },
            failure(Code::kUnavailable, "port {} of RDMA device {} is down", port, device.device->name()));
    }
}

void VerbsPoller::check_devices() noexcept {
    devices_->check();
    for (const auto& used : used_) {
        check_ports(*used);
        if (used->removed || !used->device->context().is_removed()) continue;
        used->removed = true;
        lose_connections([&](const VerbsConnection& each) { return each.uses(*used); },
                         failure(Code::kUnavailable, "the RDMA device {} was removed", used->device->name()));
    }
    lose_connections([](const VerbsConnection& each) { return each.lost_completions(); },
                     failure(Code::kIo, "the completion queue failed"));
    interrupted_.for_each([](VerbsListener& listener) {
        if (listener.listen_again()) listener.unlink();
    });
}

// Connections through a removed device end before its resources do.
void VerbsPoller::drop_removed() noexcept {
    std::erase_if(used_, [this](const std::unique_ptr<PollerDevice>& used) {
        if (!used->removed || !used->completions.is_unused()) return false;
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, used->completions.fd(), nullptr);
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, used->device->context().event_fd(), nullptr);
        return true;
    });
}

// --- listening and connecting ---

void VerbsPoller::interrupted(VerbsListener& listener) {
    if (!listener.linked()) interrupted_.push_back(listener);
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

Result<VerbsPoller::Place> VerbsPoller::attach(VerbsConnection& connection) {
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
    if (check_at_ <= now) {
        check_at_ = now + kCheckTick;
        check_devices();
        drop_removed();
    }
    watch_deadline(check_at_);
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
        const auto number = static_cast<uint32_t>(ready[i].data.u64 >> kNumberShift);
        switch (static_cast<uint32_t>(ready[i].data.u64)) {
            case kCompletionChannel:
                if (PollerDevice* device = device_of(number)) device->completions.take_events();
                break;
            case kEventChannel:
                events += take_cm_events();
                break;
            case kTimer:
                events += expire();
                break;
            case kDevice:
                if (PollerDevice* device = device_of(number))
                    events += device->device->context().take_events();
                check_devices();
                break;
            case kLookUp:
                events += looked_up(number);
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
    to.queue_pair = from.param.conn.qp_num;
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

}  // namespace wss::fabric::verbs
