// SPDX-License-Identifier: Apache-2.0
// Device: one RDMA device as this process uses it: context, protection domain, limits.
//
// Thread-safety: immutable after open(). The fabric, its pollers and its regions share it. The last of them
// closes it.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"
#include "lib/fabric/resolve.h"
#include "lib/fabric/verbs/handles.h"

namespace wss::fabric::verbs {

struct DeviceLimits {
    uint32_t queue_depth_max = 0;     // work requests of one queue
    uint32_t completions_max = 0;     // of one completion queue
    uint32_t read_segments_max = 1;   // of one READ
    uint8_t initiated_reads_max = 0;  // READs we may have outstanding on a connection
    uint8_t answered_reads_max = 0;   // READs of the peer that we can hold at once
};

class Device {
  public:
    static Result<std::shared_ptr<Device>> open(const Address& address);

    ibv_context* context() const { return context_; }
    ibv_pd* pd() const { return pd_.get(); }
    const Caps& caps() const { return caps_; }
    const DeviceLimits& limits() const { return limits_; }
    std::string name() const { return ibv_get_device_name(context_->device); }

  private:
    Device() = default;
    Status find(const Address& address);
    Status find_at(SocketAddress& where, const Address& address);  // tries one address of the host
    Status describe();

    // Keeps librdmacm from closing the context: an id bound to the device, or the list of all devices.
    CmId anchor_;
    DeviceList list_;
    ibv_context* context_ = nullptr;
    uint8_t port_ = 1;
    Pd pd_;
    Caps caps_;
    DeviceLimits limits_;
};

}  // namespace wss::fabric::verbs
