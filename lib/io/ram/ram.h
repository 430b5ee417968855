// SPDX-License-Identifier: Apache-2.0
// ram: a volume in this process's memory. The target moves data straight between it and the client
// (memory()), so the queue here serves what needs the processor: discard, write zeroes, and callers without
// RDMA.
//
// The address never changes: a large piece of address space is reserved at creation and made accessible as
// the volume grows. Discard stores zeroes instead of giving pages back: the memory may be registered with a
// NIC, which would go on using the old pages.
//
// Thread-safety: resize() may race with I/O; a request sees the size before or after it.
#pragma once

#include <atomic>

#include "lib/io/backend.h"

namespace wss::io {

class RamBackend final : public Backend {
  public:
    // Refuses more than the machine has: better a clear word now than the OOM killer later.
    static Result<std::unique_ptr<Backend>> create(uint64_t bytes);
    ~RamBackend() override;

    Limits limits() const noexcept override;
    Result<std::unique_ptr<Queue>> open_queue(reactor::Reactor& reactor) override;
    Status resize(uint64_t bytes) override;
    std::span<std::byte> memory() noexcept override { return {base_, size()}; }
    std::string describe() const override;

    uint64_t size() const noexcept { return size_.load(std::memory_order_acquire); }

  private:
    RamBackend(std::byte* mapping, size_t mapping_bytes);
    Status open_up(uint64_t bytes);  // makes [0, bytes) accessible

    // Immutable.
    std::byte* const mapping_;
    const size_t mapping_bytes_;
    std::byte* const base_;  // mapping_ rounded up to a huge page
    const uint64_t reserved_;
    // Written by resize() alone, whose callers take turns.
    uint64_t accessible_ = 0;
    std::atomic<uint64_t> size_{0};
};

}  // namespace wss::io
