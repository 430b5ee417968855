// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/stream/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace wss::fabric::stream {

namespace {
constexpr size_t kLargeBytes = 16u << 20;
}

TableRegion::TableRegion(std::shared_ptr<RegionTable> table, std::span<std::byte> memory, Access access,
                         void* owner)
    : table_(std::move(table)) {
    bytes_ = memory;
    remote_address_ = reinterpret_cast<uintptr_t>(memory.data());
    lkey_ = table_->add(memory, access, owner);
    set_rkey(0, lkey_);
}

AllocatedRegion::~AllocatedRegion() {
    revoke();
    munmap(bytes_.data(), whole_pages(bytes_.size()));
}

size_t whole_pages(size_t bytes) noexcept {
    auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return bytes > SIZE_MAX - page ? 0 : (bytes + page - 1) / page * page;
}

Result<std::unique_ptr<Region>> allocate(const std::shared_ptr<RegionTable>& table, size_t bytes,
                                         Access access) {
    if (bytes == 0 || whole_pages(bytes) == 0)
        return failure(Code::kInvalid, "cannot allocate a region of {} bytes", bytes);
    void* memory =
        mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return Status::from_errno(errno, fmt::format("cannot allocate a region of {} bytes", bytes));
    // With huge pages there is one page fault and TLB entry per 2 MiB instead of per 4 KiB. Without huge
    // pages nothing is lost.
    if (bytes >= kLargeBytes) madvise(memory, whole_pages(bytes), MADV_HUGEPAGE);
    return std::unique_ptr<Region>(
        std::make_unique<AllocatedRegion>(table, std::span(static_cast<std::byte*>(memory), bytes), access));
}

Result<std::unique_ptr<Region>> register_memory(const std::shared_ptr<RegionTable>& table,
                                                std::span<std::byte> memory, Access access) {
    if (memory.empty()) return failure(Code::kInvalid, "cannot register a region of 0 bytes");
    return std::unique_ptr<Region>(std::make_unique<TableRegion>(table, memory, access));
}

}  // namespace wss::fabric::stream
