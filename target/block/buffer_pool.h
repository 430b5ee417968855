// SPDX-License-Identifier: Apache-2.0
// BufferPool: registered, page-aligned data buffers of one reactor and one fabric.
//
// A buddy allocator over one region, registered once: blocks of 4 KiB · 2^k, at multiples of their size from
// the start of the region. Free neighbours are merged. All bookkeeping is allocated at the start, so take()
// and give() cost a few loads and stores, and take() fails only when no free block is large enough.
//
// Thread-safety: belongs to its reactor.
// Lifetime: destroyed after every block was returned and no fabric operation refers to the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/status.h"
#include "lib/fabric/fabric.h"

namespace wss::block {

class BufferPool {
  public:
    // `bytes` is rounded up to a multiple of the largest block.
    static Result<std::unique_ptr<BufferPool>> create(fabric::Fabric& fabric, size_t bytes);
    ~BufferPool();
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    // A block of at least `bytes` (1 … kBufferMax); nullptr if none is free.
    std::byte* take(size_t bytes) noexcept;
    // The size of the block that take(bytes) returns.
    static size_t block_bytes(size_t bytes) noexcept { return kPageBytes << order_of(bytes); }
    // `bytes`: the value that was passed to take().
    void give(std::byte* block, size_t bytes) noexcept;

    uint32_t lkey() const noexcept { return region_->lkey(); }
    std::span<std::byte> memory() const noexcept { return region_->bytes(); }
    size_t size() const noexcept { return region_->bytes().size(); }
    size_t free_bytes() const noexcept { return free_pages_ * kPageBytes; }

  private:
    static constexpr size_t kPageBytes = 4096;
    static constexpr uint32_t kOrders = 10;  // 4 KiB … 2 MiB
    static constexpr uint32_t kNone = UINT32_MAX;
    static constexpr uint8_t kNotFree = 0xff;

    explicit BufferPool(std::unique_ptr<fabric::Region> region);
    static uint32_t order_of(size_t bytes) noexcept;
    void push(uint32_t page, uint32_t order) noexcept;
    void unlink(uint32_t page) noexcept;

    std::unique_ptr<fabric::Region> region_;
    // For each page that begins a free block: the block's order and its neighbours in the list of that order.
    struct Page {
        uint32_t next = kNone, previous = kNone;
        uint8_t free_order = kNotFree;
    };
    std::vector<Page> pages_;
    uint32_t heads_[kOrders];
    size_t free_pages_ = 0;
};

}  // namespace wss::block
