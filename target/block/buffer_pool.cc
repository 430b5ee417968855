// SPDX-License-Identifier: Apache-2.0
#include "target/block/buffer_pool.h"

#include <algorithm>
#include <bit>

#include "target/block/limits.h"

namespace wss::block {

Result<std::unique_ptr<BufferPool>> BufferPool::create(fabric::Fabric& fabric, size_t bytes) {
    static_assert((kPageBytes << (kOrders - 1)) == kBufferMax, "the largest order is the largest buffer");
    static_assert(kPageBytes == kPage, "the pool and the arena use the same page size");
    size_t rounded = (std::max<size_t>(bytes, 1) + kBufferMax - 1) / kBufferMax * kBufferMax;
    // iWARP's READ responses arrive as remote writes.
    auto access =
        fabric.caps().read_sink_remote_write ? fabric::Access::kRemoteWrite : fabric::Access::kLocal;
    auto region = fabric.allocate(rounded, access);
    if (!region)
        return region.status().within(
            fmt::format("{} MiB of I/O buffers on {}", rounded >> 20, fabric.caps().name));
    return std::unique_ptr<BufferPool>(new BufferPool(std::move(*region)));
}

BufferPool::BufferPool(std::unique_ptr<fabric::Region> region)
    : region_(std::move(region)), pages_(region_->bytes().size() / kPageBytes) {
    std::fill(std::begin(heads_), std::end(heads_), kNone);
    constexpr uint32_t kStep = 1u << (kOrders - 1);
    // The pages are added backwards, so that take() returns the lowest addresses first.
    for (size_t page = pages_.size(); page > 0; page -= kStep)
        push(static_cast<uint32_t>(page - kStep), kOrders - 1);
    free_pages_ = pages_.size();
}

BufferPool::~BufferPool() {
    WSS_ASSERT(free_pages_ == pages_.size(), "every buffer is returned before the pool is destroyed");
}

uint32_t BufferPool::order_of(size_t bytes) noexcept {
    WSS_ASSERT(bytes > 0 && bytes <= kBufferMax, "the caller bounds its transfers");
    return static_cast<uint32_t>(std::bit_width((bytes - 1) / kPageBytes));
}

void BufferPool::push(uint32_t page, uint32_t order) noexcept {
    pages_[page] = {.next = heads_[order], .previous = kNone, .free_order = static_cast<uint8_t>(order)};
    if (heads_[order] != kNone) pages_[heads_[order]].previous = page;
    heads_[order] = page;
}

void BufferPool::unlink(uint32_t page) noexcept {
    Page& node = pages_[page];
    if (node.previous != kNone)
        pages_[node.previous].next = node.next;
    else
        heads_[node.free_order] = node.next;
    if (node.next != kNone) pages_[node.next].previous = node.previous;
    node.free_order = kNotFree;
}

std::byte* BufferPool::take(size_t bytes) noexcept {
    const uint32_t wanted = order_of(bytes);
    uint32_t order = wanted;
    while (order < kOrders && heads_[order] == kNone) ++order;
    if (order == kOrders) return nullptr;
    uint32_t page = heads_[order];
    unlink(page);
    while (order > wanted) {
        --order;
        push(page + (1u << order), order);
    }
    free_pages_ -= size_t{1} << wanted;
    return region_->bytes().data() + page * kPageBytes;
}

void BufferPool::give(std::byte* block, size_t bytes) noexcept {
    uint32_t order = order_of(bytes);
    size_t offset = static_cast<size_t>(block - region_->bytes().data());
    uint32_t page = static_cast<uint32_t>(offset / kPageBytes);
    WSS_ASSERT(
        page < pages_.size() && offset % (kPageBytes << order) == 0 && pages_[page].free_order == kNotFree,
        "a block is returned once, to the pool that it came from");
    free_pages_ += size_t{1} << order;
    for (; order + 1 < kOrders; ++order) {
        uint32_t buddy = page ^ (1u << order);
        if (pages_[buddy].free_order != order) break;
        unlink(buddy);
        page = std::min(page, buddy);
    }
    push(page, order);
}

}  // namespace wss::block
