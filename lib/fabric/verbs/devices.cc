// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/devices.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/log.h"
#include "lib/fabric/verbs/region.h"

namespace wss::fabric::verbs {

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

// --- opening ---

Result<std::shared_ptr<Devices>> Devices::open(const Address& address) {
    prepare_for_forks();
    std::shared_ptr<Devices> devices(new Devices);
    WSS_TRY(devices->find(address));
    devices->caps_are_final_ = true;
    return devices;
}

Status Devices::find(const Address& address) {
    Result<std::vector<SocketAddress>> found = resolve(address);
    if (!found) return found.status();
    Status why;
    for (SocketAddress& where : *found) {
        why = where.is_any() ? find_everywhere(address) : find_at(where, address);
        if (why) break;
    }
    return why;
}

Status Devices::find_at(SocketAddress& where, const Address& address) {
    Result<CmId> id = create_waiting_id(address);
    if (!id) return id.status();
    SocketAddress any_port = where;
    any_port.set_port(0);
    if (rdma_bind_addr(id->get(), any_port.get()) != 0 || (*id)->verbs == nullptr) {
        // No device has this address, so it is that of a peer.
        id = create_waiting_id(address);
        if (!id) return id.status();
        if (rdma_resolve_addr(id->get(), nullptr, where.get(), kResolveTimeoutMs) != 0)
            return no_device(errno, address);
        if ((*id)->verbs == nullptr) return no_device(ENODEV, address);
    }
    return of(**id).status();
}

// The devices that have an address now. Others are opened for their first connection.
Status Devices::find_everywhere(const Address& address) {
    ifaddrs* interfaces = nullptr;
    if (getifaddrs(&interfaces) != 0) return Status::from_errno(errno, "the addresses cannot be listed");
    Status why = no_device(ENODEV, address);
    bool found = false;
    for (const ifaddrs* each = interfaces; each != nullptr; each = each->ifa_next) {
        const bool is_ip = each->ifa_addr != nullptr &&
                           (each->ifa_addr->sa_family == AF_INET || each->ifa_addr->sa_family == AF_INET6);
        if (!is_ip || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
        Result<CmId> id = create_waiting_id(address);
        if (!id || rdma_bind_addr(id->get(), each->ifa_addr) != 0 || (*id)->verbs == nullptr) continue;
        auto device = of(**id);
        found = found || device;
        if (!device) why = device.status();
    }
    freeifaddrs(interfaces);
    return found ? Status::ok() : why;
}

Result<std::shared_ptr<Device>> Devices::of(rdma_cm_id& bound) {
    std::scoped_lock lock(mutex_);
    for (const Slot& slot : slots_)
        if (slot.open != nullptr && slot.open->context().get() == bound.verbs) {
            if (slot.open->context().is_removed()) break;
            return slot.open;
        }
    std::shared_ptr<Device> device;
    WSS_TRY(open_locked(bound, device));
    return device;
}

Status Devices::open_locked(rdma_cm_id& bound, std::shared_ptr<Device>& device) {
    auto slot =
        std::find_if(slots_.begin(), slots_.end(), [](const Slot& each) { return each.last.expired(); });
    if (slot == slots_.end())
        return failure(Code::kExhausted, "{}: {} RDMA devices are in use, which is the limit",
                       ibv_get_device_name(bound.verbs->device), kDevicesMax);
    auto made = Device::open(bound, static_cast<size_t>(slot - slots_.begin()));
    if (!made) return made.status();
    WSS_TRY(admit(**made));
    WSS_TRY(register_all(**made));
    device = std::move(*made);
    slot->last = slot->open = device;
    if (caps_are_final_) log::info("{}: the RDMA device is in service", device->name());
    return Status::ok();
}

// Before open() returns, the fabric's capabilities become what all devices have. Afterwards its users rely on
// them.
Status Devices::admit(const Device& device) {
    const Caps& has = device.caps();
    if (!caps_are_final_) {
        const bool first = caps_.name.empty();
        Caps all = has;
        if (!first) {
            all.write_immediate = all.write_immediate && caps_.write_immediate;
            all.send_invalidate = all.send_invalidate && caps_.send_invalidate;
            all.read_sink_remote_write = all.read_sink_remote_write || caps_.read_sink_remote_write;
            all.segments_max = std::min(all.segments_max, caps_.segments_max);
            all.read_depth_max = std::min(all.read_depth_max, caps_.read_depth_max);
            all.message_max = std::min(all.message_max, caps_.message_max);
            all.transfer_max = std::min(all.transfer_max, caps_.transfer_max);
        }
        caps_ = all;
        return Status::ok();
    }
    const bool suffices = (has.write_immediate || !caps_.write_immediate) &&
                          (has.send_invalidate || !caps_.send_invalidate) &&
                          (!has.read_sink_remote_write || caps_.read_sink_remote_write) &&
                          has.segments_max >= caps_.segments_max && has.message_max >= caps_.message_max &&
                          has.transfer_max >= caps_.transfer_max;
    if (suffices) return Status::ok();
    return failure(Code::kUnsupported,
                   "{}: this RDMA device supports less than the devices that were present when the program "
                   "started; restart the program to use it",
                   device.name());
}

// --- regions ---

Status Devices::register_all(Device& device) {
    for (VerbsRegion* region : regions_)
        if (region != nullptr) WSS_TRY(region->add_to(device));
    return Status::ok();
}

Status Devices::take_key(uint32_t& key) {
    if (free_keys_.empty()) {
        if (regions_.size() == kRegionsMax)
            return failure(Code::kExhausted, "{} regions are registered, which is the limit", kRegionsMax);
        free_keys_.push_back(static_cast<uint32_t>(regions_.size()));
        regions_.push_back(nullptr);
    }
    key = free_keys_.front();
    free_keys_.pop_front();
    return Status::ok();
}

Status Devices::add(VerbsRegion& region) {
    std::scoped_lock lock(mutex_);
    uint32_t key = 0;
    WSS_TRY(take_key(key));
    region.set_key(key);
    regions_[key] = &region;
    for (const Slot& slot : slots_) {
        if (slot.open == nullptr) continue;
        Status added = region.add_to(*slot.open);
        if (!added && !slot.open->context().is_removed()) return added;
    }
    return Status::ok();
}

void Devices::remove(VerbsRegion& region) noexcept {
    std::scoped_lock lock(mutex_);
    regions_[region.lkey()] = nullptr;
    free_keys_.push_back(region.lkey());
    for (const Slot& slot : slots_)
        if (auto device = slot.last.lock()) device->drop(region.lkey());
}

// --- removal ---

void Devices::check() noexcept {
    std::scoped_lock lock(mutex_);
    for (Slot& slot : slots_) {
        if (slot.open == nullptr) continue;
        slot.open->context().take_events();
        if (!slot.open->context().is_removed()) continue;
        log::warning(
            "{}: the RDMA device was removed; its connections are closed. It is used again when it "
            "returns",
            slot.open->name());
        slot.open.reset();
    }
}

void Devices::release_all() noexcept {
    std::scoped_lock lock(mutex_);
    for (Slot& slot : slots_) slot.open.reset();
}

}  // namespace wss::fabric::verbs
