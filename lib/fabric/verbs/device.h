// SPDX-License-Identifier: Apache-2.0
// Device: one RDMA device as a fabric uses it: protection domain, limits, and the registrations of the
// fabric's regions.
//
// Life: Devices opens it and ends its use when it is removed. Each poller that has connections through it
// shares it. The last owner closes it.
//
// Thread-safety: lkey() may be called from any thread, add() and drop() under the lock of Devices. The rest
// is immutable after open().
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>

#include "lib/fabric/fabric.h"
#include "lib/fabric/verbs/context.h"
#include "lib/fabric/verbs/handles.h"

namespace wss::fabric::verbs {

struct DeviceLimits {
    uint32_t queue_depth_max = 0;     // work requests of one queue
    uint32_t completions_max = 0;     // entries of one completion queue
    uint32_t read_segments_max = 1;   // segments of one READ
    uint8_t initiated_reads_max = 0;  // READs we may have outstanding on a connection
    uint8_t answered_reads_max = 0;   // READs of the peer that we can hold at once
};

// Keys of regions are less than this. Region::lkey() is such a key, and every device has its own lkey for it.
constexpr uint32_t kRegionsMax = 1u << 20;

class Device {
  public:
    // `index` becomes Connection::device() of its connections.
    static Result<std::shared_ptr<Device>> open(rdma_cm_id& bound, size_t index);

    size_t index() const noexcept { return index_; }
    Context& context() const noexcept { return *context_; }
    ibv_pd* pd() const noexcept { return pd_.get(); }
    const Caps& caps() const noexcept { return caps_; }
    const DeviceLimits& limits() const noexcept { return limits_; }
    std::string name() const { return context_->name(); }
    // The device's key for the region. If there is no such region, a key that the device rejects.
    uint32_t lkey(uint32_t region) const noexcept {
        return region < kRegionsMax ? ~inverted_lkeys_[region].load(std::memory_order_relaxed) : kNoKey;
    }

    // Registers memory and returns the device's rkey for it.
    Result<uint32_t> add(uint32_t region, std::span<std::byte> memory, Access access);
    void drop(uint32_t region) noexcept;

  private:
    static constexpr uint32_t kNoKey = ~0u;
    struct Free {
        void operator()(void* memory) const noexcept { free(memory); }
    };

    Device(std::shared_ptr<Context> context, size_t index) : index_(index), context_(std::move(context)) {}
    Status describe(uint8_t port);

    const size_t index_;
    const std::shared_ptr<Context> context_;
    Caps caps_;
    DeviceLimits limits_;
    // Zeroed pages that the kernel provides on first use. So unused entries read as kNoKey.
    std::unique_ptr<std::atomic<uint32_t>[], Free> inverted_lkeys_;
    Pd pd_;
    std::unordered_map<uint32_t, Mr> registrations_;
};

}  // namespace wss::fabric::verbs
