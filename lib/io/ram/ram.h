// SPDX-License-Identifier: Apache-2.0
// ram: a volume in this process's memory. The target moves data directly between it and the client
// (memory()), so the queue serves only discards, write zeroes, and callers that do not use memory().
//
// The address never changes: a large range of address space is reserved at creation and made accessible as
// the volume grows. Discard stores zeroes and frees no pages: the memory may be registered with a NIC, which
// would continue to use the old pages.
//
// Thread-safety: resize() may be called during I/O. Each part of a request is then checked against the old or
// the new size.
#pragma once

#include <atomic>

#include "lib/io/backend.h"

namespace wss::io {

class RamBackend final : public Backend {
  public:
    // Rejects sizes beyond the machine's memory: a clear error now is better than the OOM killer later.
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
    // Only resize() writes these. Its calls must not overlap.
    uint64_t accessible_ = 0;
    std::atomic<uint64_t> size_{0};
};

}  // namespace wss::io
