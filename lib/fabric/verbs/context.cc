// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/context.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/fabric/resolve.h"
#include "lib/fabric/verbs/completion_queues.h"

namespace wss::fabric::verbs {

constexpr size_t kEventsPerCall = 16;

static ino_t node_of(const ibv_context* context) noexcept {
    struct stat node {};
    return stat(context->device->dev_path, &node) == 0 ? node.st_ino : 0;
}

// The devices that the process uses or has used, by name.
struct Known {
    std::weak_ptr<Context> context;
    uint64_t removals = 0;
};
struct Registry {
    std::mutex mutex;
    std::map<std::string, Known> devices;  // guarded by `mutex`
};

// Usable before main() and never destroyed, because a static object may own a fabric.
static Registry& registry() {
    static auto& all = *new Registry;
    return all;
}

Result<std::shared_ptr<Context>> Context::of(rdma_cm_id& bound) {
    std::shared_ptr<Context> former;  // released after the lock
    std::scoped_lock lock(registry().mutex);
    Known& known = registry().devices[ibv_get_device_name(bound.verbs->device)];
    former = known.context.lock();
    if (former != nullptr && former->get() == bound.verbs)
        return former->is_removed() ? Result<std::shared_ptr<Context>>(former->removed()) : former;
    std::shared_ptr<Context> fresh(new Context(bound.verbs));
    WSS_TRY(fresh->set_up(bound));
    known.context = fresh;
    fresh->is_known_ = true;
    return fresh;
}

static bool is_present(const std::string& name) {
    struct stat node {};
    return stat(("/sys/class/infiniband/" + name).c_str(), &node) == 0;
}

std::vector<DeviceReport> Context::reports() {
    std::vector<std::shared_ptr<Context>> used;  // released after the lock
    std::scoped_lock lock(registry().mutex);
    std::vector<DeviceReport> all;
    for (const auto& [name, known] : registry().devices) {
        auto context = used.emplace_back(known.context.lock());
        if (context == nullptr && known.removals == 0) continue;  // no fabric uses it any more
        DeviceState state = is_present(name) ? DeviceState::kReturned : DeviceState::kRemoved;
        if (context != nullptr && !context->is_removed())
            state = context->has_active_port() ? DeviceState::kServing : DeviceState::kPortDown;
        all.push_back({name, state, known.removals});
    }
    return all;
}

Status Context::set_up(rdma_cm_id& bound) {
    node_ = node_of(context_);
    if (is_removed()) return removed();
    WSS_TRY(hold(bound));
    ibv_device_attr attributes{};
    if (int error = ibv_query_device(context_, &attributes); error != 0)
        return Status::from_errno(error, fmt::format("{}: the device cannot be queried", name()));
    failures_ = std::vector<std::atomic<uint32_t>>(size_t{attributes.phys_port_cnt} + 1);
    // Device events are read between completions, so the read must not block.
    const int flags = fcntl(event_fd(), F_GETFL);
    fcntl(event_fd(), F_SETFL, flags | O_NONBLOCK);
    return Status::ok();
}

Status Context::hold(rdma_cm_id& bound) {
    rdma_cm_id* id = nullptr;
    // An id without an event channel works synchronously.
    if (rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) != 0)
        return Status::from_errno(errno, fmt::format("{}: cannot create a connection manager id", name()));
    anchor_.reset(id);
    SocketAddress local;
    const sockaddr* from = rdma_get_local_addr(&bound);
    local.length = from->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    std::copy_n(reinterpret_cast<const std::byte*>(from), local.length,
                reinterpret_cast<std::byte*>(&local.storage));
    local.set_port(0);
    if (rdma_bind_addr(id, local.get()) == 0 && id->verbs == context_) return Status::ok();
    anchor_.reset();
    // The address does not identify the device: it is a link-local one, or two devices share it.
    list_.reset(rdma_get_devices(nullptr));
    if (list_ == nullptr)
        return Status::from_errno(errno, fmt::format("{}: cannot keep the RDMA device open", name()));
    return Status::ok();
}

Context::~Context() {
    const bool removed = is_removed();
    if (removed) close_kernel_side();
    if (!removed || !is_known_) return;
    std::scoped_lock lock(registry().mutex);
    ++registry().devices[name()].removals;
}

Status Context::removed() const {
    return failure(Code::kUnavailable, "{}: the RDMA device is being removed", name());
}

bool Context::is_removed() const noexcept {
    return node_ == 0 || node_of(context_) != node_;
}

// librdmacm closes its descriptors later, so they must remain valid ones.
void Context::close_kernel_side() noexcept {
    const Descriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!nothing) return log::error("{}: cannot be released: /dev/null cannot be opened", name());
    dup3(nothing.get(), context_->async_fd, O_CLOEXEC);
    dup3(nothing.get(), context_->cmd_fd, O_CLOEXEC);
    log::info("{}: the removed RDMA device is released", name());
}

bool Context::has_active_port() const noexcept {
    for (size_t port = 1; port <= ports(); ++port)
        if (is_active(port)) return true;
    return false;
}

bool Context::is_active(size_t port) const noexcept {
    ibv_port_attr attributes{};
    return ibv_query_port(context_, static_cast<uint8_t>(port), &attributes) == 0 &&
           attributes.state == IBV_PORT_ACTIVE;
}

void Context::port_failed(size_t port) noexcept {
    failures_[port].fetch_add(1, std::memory_order_relaxed);
}

void Context::take(const ibv_async_event& event) noexcept {
    const auto port = static_cast<size_t>(event.element.port_num);
    switch (event.event_type) {
        case IBV_EVENT_CQ_ERR:
            log::error(
                "{}: a completion queue overran; its connections are closed. This is a bug: please report it",
                name());
            return CompletionQueues::mark_failed(*event.element.cq);
        case IBV_EVENT_DEVICE_FATAL:
            log::warning("{}: the device failed; its connections are closed", name());
            for (size_t each = 1; each <= ports(); ++each) port_failed(each);
            return;
        case IBV_EVENT_PORT_ERR:
            if (port == 0 || port > ports()) return;
            log::warning("{}: port {} is down; its connections are closed", name(), port);
            return port_failed(port);
        case IBV_EVENT_PORT_ACTIVE:
            return log::info("{}: port {} is active", name(), port);
        default:  // events of a queue pair also arrive through its completions and connection events
            return;
    }
}

size_t Context::take_events() noexcept {
    size_t events = 0;
    ibv_async_event event;
    while (events < kEventsPerCall && ibv_get_async_event(context_, &event) == 0) {
        take(event);
        ibv_ack_async_event(&event);
        ++events;
    }
    return events;
}

}  // namespace wss::fabric::verbs
