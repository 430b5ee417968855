// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/device.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "lib/fabric/verbs/negotiation.h"

namespace wss::fabric::verbs {

// Segments of one work request. More would only enlarge the queue entries.
constexpr uint32_t kSegmentsMax = 16;

Status Device::describe(uint8_t port_number) {
    ibv_context* context = context_->get();
    ibv_device_attr device{};
    ibv_port_attr port{};
    if (int error = ibv_query_device(context, &device); error != 0)
        return Status::from_errno(error, fmt::format("{}: the device cannot be queried", name()));
    if (int error = ibv_query_port(context, port_number, &port); error != 0)
        return Status::from_errno(error, fmt::format("{}: port {} cannot be queried", name(), port_number));
    limits_.queue_depth_max = static_cast<uint32_t>(std::max(device.max_qp_wr, 1));
    limits_.completions_max = static_cast<uint32_t>(std::max(device.max_cqe, 1));
    limits_.read_segments_max = read_segments(device);
    // The connection manager has 8-bit fields for them.
    limits_.initiated_reads_max = static_cast<uint8_t>(std::clamp(device.max_qp_init_rd_atom, 0, 255));
    limits_.answered_reads_max = static_cast<uint8_t>(std::clamp(device.max_qp_rd_atom, 0, 255));

    bool iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
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

Result<std::shared_ptr<Device>> Device::open(rdma_cm_id& bound, size_t index) {
    auto context = Context::of(bound);
    if (!context) return context.status();
    std::shared_ptr<Device> device(new Device(std::move(*context), index));
    WSS_TRY(device->describe(bound.port_num));
    device->pd_.reset(ibv_alloc_pd(device->context_->get()));
    if (device->pd_ == nullptr)
        return Status::from_errno(errno,
                                  fmt::format("{}: cannot create a protection domain", device->name()));
    static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4,
                  "zeroed memory is an array of zero entries");
    device->inverted_lkeys_.reset(
        static_cast<std::atomic<uint32_t>*>(calloc(kRegionsMax, sizeof(std::atomic<uint32_t>))));
    if (device->inverted_lkeys_ == nullptr) return Status::from_errno(ENOMEM, device->name());
    return device;
}

static int flags_of(Access access) {
    // Some devices allow remote writes only with local write access.
    int flags = IBV_ACCESS_LOCAL_WRITE;
    if (access == Access::kRemoteRead || access == Access::kRemoteReadWrite) flags |= IBV_ACCESS_REMOTE_READ;
    if (access == Access::kRemoteWrite || access == Access::kRemoteReadWrite)
        flags |= IBV_ACCESS_REMOTE_WRITE;
    return flags;
}

static Status not_registered(const Device& device, size_t bytes, int error) {
    rlimit locked{};
    getrlimit(RLIMIT_MEMLOCK, &locked);
    if ((error == ENOMEM || error == EPERM) && locked.rlim_cur != RLIM_INFINITY)
        return Status::from_errno(
            error, fmt::format("{}: {} bytes cannot be pinned; this process may lock {} bytes: raise "
                               "'ulimit -l' (LimitMEMLOCK= of a service)",
                               device.name(), bytes, locked.rlim_cur));
    return Status::from_errno(error, fmt::format("{}: {} bytes cannot be registered", device.name(), bytes));
}

Result<uint32_t> Device::add(uint32_t region, std::span<std::byte> memory, Access access) {
    Mr mr(ibv_reg_mr(pd(), memory.data(), memory.size(), flags_of(access)));
    if (mr == nullptr) return not_registered(*this, memory.size(), errno);
    const uint32_t rkey = mr->rkey;
    inverted_lkeys_[region].store(~mr->lkey, std::memory_order_relaxed);
    registrations_[region] = std::move(mr);
    return rkey;
}

void Device::drop(uint32_t region) noexcept {
    inverted_lkeys_[region].store(0, std::memory_order_relaxed);
    registrations_.erase(region);
}

}  // namespace wss::fabric::verbs
