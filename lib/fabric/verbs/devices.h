// SPDX-License-Identifier: Apache-2.0
// Devices: the RDMA devices of one fabric, and the regions that are registered with all of them.
//
// A fabric for an address of one device opens that device. A fabric for 0.0.0.0 or [::] opens all devices of
// the machine. Further devices are opened for their first connection. They must offer at least what the first
// ones offer, because Fabric::caps() holds for every connection.
//
// A removed device gets no further connection. Each poller closes its connections through it and then drops
// its share of the Device. A device that returns is a new Device.
//
// Thread-safety: all functions may be called from any thread. None is called for an I/O.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/fabric/fabric.h"
#include "lib/fabric/resolve.h"
#include "lib/fabric/verbs/device.h"

namespace wss::fabric::verbs {

class VerbsRegion;

class Devices {
  public:
    static Result<std::shared_ptr<Devices>> open(const Address& address);

    const Caps& caps() const noexcept { return caps_; }
    // The device that `bound` is bound to. Opens it if necessary, which registers all regions with it.
    Result<std::shared_ptr<Device>> of(rdma_cm_id& bound);
    // Takes the events of all devices, even of those without connections, and ends the use of devices that
    // were removed. Every poller calls it regularly.
    void check() noexcept;
    // Ends the use of all devices, when the fabric ends.
    void release_all() noexcept;

    // Registers the region's memory with each device and gives the region its keys.
    Status add(VerbsRegion& region);
    void remove(VerbsRegion& region) noexcept;

  private:
    struct Slot {
        std::shared_ptr<Device> open;
        std::weak_ptr<Device> last;  // exists until the last poller has dropped it, even if it was removed
    };

    Devices() = default;
    Status find(const Address& address);
    Status find_at(SocketAddress& where, const Address& address);  // tries one address of the host
    Status find_everywhere(const Address& address);
    Status open_locked(rdma_cm_id& bound, std::shared_ptr<Device>& device);
    Status register_all(Device& device);
    Status take_key(uint32_t& key);
    Status admit(const Device& device);

    std::mutex mutex_;
    Caps caps_;  // immutable after open()
    bool caps_are_final_ = false;
    std::array<Slot, kDevicesMax> slots_;
    std::vector<VerbsRegion*> regions_{nullptr};  // indexed by key; key 0 is not used
    std::deque<uint32_t> free_keys_;              // the one that was freed first is used first
};

}  // namespace wss::fabric::verbs
