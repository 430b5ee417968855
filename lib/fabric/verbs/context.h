// SPDX-License-Identifier: Apache-2.0
// Context: one RDMA device of the machine, as librdmacm has opened it. All fabrics of the process share it.
//
// Life: serving → released. A kernel driver without support for disassociation (rxe, siw) waits in the
// removal of its device until every process has closed the device. librdmacm closes a context only when it
// looks for devices again, and never if no device is left. Therefore the destructor of a Context whose device
// was removed closes the kernel's side itself.
//
// How a removal is detected: the kernel deletes the device's uverbs node before it waits. The connection
// manager's event is not sufficient. It arrives after the wait if ib_uverbs was loaded after rdma_cm.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/fabric/device_report.h"
#include "lib/fabric/verbs/handles.h"

namespace wss::fabric::verbs {

class Context {
  public:
    // The device that `bound` is bound to. Fails if the device is being removed.
    static Result<std::shared_ptr<Context>> of(rdma_cm_id& bound);
    // The state of every device that the process uses or has lost.
    static std::vector<DeviceReport> reports();
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    ibv_context* get() const noexcept { return context_; }
    std::string name() const { return ibv_get_device_name(context_->device); }
    // Descriptor of the device's events. Each event is delivered to one reader, so take_events() counts the
    // failures for the others.
    int event_fd() const noexcept { return context_->async_fd; }
    size_t take_events() noexcept;
    // Number of failures so far that ended all connections through `port` (1, 2, …).
    uint32_t failures(size_t port) const noexcept { return failures_[port].load(std::memory_order_relaxed); }
    size_t ports() const noexcept { return failures_.size() - 1; }
    bool is_removed() const noexcept;
    bool has_active_port() const noexcept;
    bool is_active(size_t port) const noexcept;

  private:
    explicit Context(ibv_context* context) : context_(context) {}
    Status removed() const;
    Status hold(rdma_cm_id& bound);
    Status set_up(rdma_cm_id& bound);
    void port_failed(size_t port) noexcept;
    void take(const ibv_async_event& event) noexcept;
    void close_kernel_side() noexcept;

    ibv_context* const context_;
    // Keeps librdmacm from closing the context: an id bound to the device, or the list of all devices.
    CmId anchor_;
    DeviceList list_;
    bool is_known_ = false;  // reports() lists the device
    ino_t node_ = 0;         // inode of the uverbs node; differs if the device returns under the same name
    std::vector<std::atomic<uint32_t>> failures_;  // indexed by port number
};

}  // namespace wss::fabric::verbs
