// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/device.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "lib/base/log.h"
#include "lib/fabric/verbs/negotiation.h"

namespace wss::fabric::verbs {

// Segments of one work request. More would only enlarge the queue entries.
constexpr uint32_t kSegmentsMax = 16;
constexpr int kResolveTimeoutMs = 3000;

constexpr const char* kHowToGetADevice =
    "install and configure an RDMA network card, or use software RDMA: "
    "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev INTERFACE";

static Status no_device(int error, const Address& address) {
    if (error == EPERM || error == EACCES)
        return Status::from_errno(
            error,
            fmt::format("{}: no access to /dev/infiniband; check its permissions", address.to_string()));
    int devices = 0;
    if (ibv_device** list = ibv_get_device_list(&devices)) ibv_free_device_list(list);
    if (devices == 0)
        return failure(Code::kNotFound, "{}: this machine has no RDMA device; {}", address.to_string(),
                       kHowToGetADevice);
    if (access("/dev/infiniband/rdma_cm", F_OK) != 0)
        return failure(Code::kNotFound, "{}: the RDMA connection manager is not loaded; modprobe rdma_ucm",
                       address.to_string());
    return failure(Code::kNotFound,
                   "{}: no RDMA device of this machine ({} found) has or reaches this address ({}); {}",
                   address.to_string(), devices, Status::from_errno(error, "").to_string(), kHowToGetADevice);
}

static Result<CmId> create_waiting_id(const Address& address) {
    rdma_cm_id* id = nullptr;
    // An id without an event channel works synchronously.
    if (rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) != 0) return no_device(errno, address);
    return CmId(id);
}

Status Device::find(const Address& address) {
    Result<std::vector<SocketAddress>> found = resolve(address);
    if (!found) return found.status();
    Status why;
    for (SocketAddress& where : *found)
        if (why = find_at(where, address); why) break;
    return why;
}

Status Device::find_at(SocketAddress& where, const Address& address) {
    if (where.is_any()) {
        int devices = 0;
        list_.reset(rdma_get_devices(&devices));
        if (list_ == nullptr || devices == 0) return no_device(errno, address);
        context_ = *list_;
        return Status::ok();
    }
    Result<CmId> local = create_waiting_id(address);
    if (!local) return local.status();
    SocketAddress any_port = where;
    any_port.set_port(0);
    if (rdma_bind_addr(local->get(), any_port.get()) == 0 && (*local)->verbs != nullptr) {
        anchor_ = std::move(*local);
    } else {
        Result<CmId> remote = create_waiting_id(address);
        if (!remote) return remote.status();
        if (rdma_resolve_addr(remote->get(), nullptr, where.get(), kResolveTimeoutMs) != 0)
            return no_device(errno, address);
        anchor_ = std::move(*remote);
    }
    if (anchor_->verbs == nullptr) return no_device(ENODEV, address);
    context_ = anchor_->verbs;
    port_ = anchor_->port_num;
    return Status::ok();
}

Status Device::describe() {
    ibv_device_attr device{};
    ibv_port_attr port{};
    if (int error = ibv_query_device(context_, &device); error != 0)
        return Status::from_errno(error, fmt::format("{}: the device cannot be queried", name()));
    if (int error = ibv_query_port(context_, port_, &port); error != 0)
        return Status::from_errno(error, fmt::format("{}: port {} cannot be queried", name(), port_));
    limits_.queue_depth_max = static_cast<uint32_t>(std::max(device.max_qp_wr, 1));
    limits_.completions_max = static_cast<uint32_t>(std::max(device.max_cqe, 1));
    limits_.read_segments_max = read_segments(device);
    // The connection manager has 8-bit fields for them.
    limits_.initiated_reads_max = static_cast<uint8_t>(std::clamp(device.max_qp_init_rd_atom, 0, 255));
    limits_.answered_reads_max = static_cast<uint8_t>(std::clamp(device.max_qp_rd_atom, 0, 255));

    bool iwarp = context_->device->transport_type == IBV_TRANSPORT_IWARP;
    caps_.name = "verbs";
    caps_.write_immediate = !iwarp;
    // siw closes the connection on an inlined SEND WITH INVALIDATE, and responses are inlined: on iWARP the
    // initiator invalidates its regions itself.
    caps_.send_invalidate = !iwarp && (device.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0;
    caps_.read_sink_remote_write = iwarp;
    caps_.segments_max = std::min(kSegmentsMax, static_cast<uint32_t>(std::max(device.max_sge, 1)));
    caps_.read_depth_max = std::min(limits_.initiated_reads_max, limits_.answered_reads_max);
    caps_.message_max = caps_.transfer_max = port.max_msg_sz;
    return Status::ok();
}

// A program that uses libwss may fork. Before Linux 5.12 the page that the parent or the child writes next is
// copied, and the device may continue to use the page that then belongs to the child. So registered memory
// has to be kept out of the child. libibverbs does nothing where the kernel copies such pages in time
// (IBV_FORK_UNNEEDED).
static void prepare_for_forks() {
    static std::once_flag once;
    std::call_once(once, [] {
        if (int error = ibv_fork_init(); error != 0)
            log::warning("libibverbs cannot prepare for fork ({}); this process must not fork",
                         Status::from_errno(error, "").to_string());
    });
}

Result<std::shared_ptr<Device>> Device::open(const Address& address) {
    prepare_for_forks();
    std::shared_ptr<Device> device(new Device);
    WSS_TRY(device->find(address));
    device->pd_.reset(ibv_alloc_pd(device->context_));
    if (device->pd_ == nullptr)
        return Status::from_errno(errno,
                                  fmt::format("{}: cannot create a protection domain", device->name()));
    WSS_TRY(device->describe());
    // Device events are read between completions, so the read must not block.
    int flags = fcntl(device->context_->async_fd, F_GETFL);
    fcntl(device->context_->async_fd, F_SETFL, flags | O_NONBLOCK);
    return device;
}

}  // namespace wss::fabric::verbs
