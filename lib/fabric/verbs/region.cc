// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/region.h"

#include <sys/mman.h>

#include <cerrno>

namespace wss::fabric::verbs {

Mapping::~Mapping() {
    if (!pages_.empty()) munmap(pages_.data(), pages_.size());
}

VerbsRegion::VerbsRegion(std::shared_ptr<Devices> devices, std::span<std::byte> memory, Mapping mapping,
                         Access access)
    : devices_(std::move(devices)), mapping_(std::move(mapping)), access_(access) {
    bytes_ = memory;
    remote_address_ = reinterpret_cast<uint64_t>(memory.data());
}

Result<std::unique_ptr<Region>> VerbsRegion::create(std::shared_ptr<Devices> devices,
                                                    std::span<std::byte> memory, Mapping mapping,
                                                    Access access) {
    std::unique_ptr<VerbsRegion> region(
        new VerbsRegion(std::move(devices), memory, std::move(mapping), access));
    WSS_TRY(region->devices_->add(*region));
    return std::unique_ptr<Region>(std::move(region));
}

VerbsRegion::~VerbsRegion() {
    if (lkey_ != 0) devices_->remove(*this);
}

Status VerbsRegion::add_to(Device& device) {
    auto rkey = device.add(lkey_, bytes_, access_);
    if (!rkey) return rkey.status();
    set_rkey(device.index(), *rkey);
    return Status::ok();
}

Result<std::unique_ptr<Region>> register_memory(std::shared_ptr<Devices> devices, std::span<std::byte> memory,
                                                Access access) {
    if (memory.empty()) return failure(Code::kInvalid, "a region has at least one byte");
    return VerbsRegion::create(std::move(devices), memory, Mapping(), access);
}

Result<std::unique_ptr<Region>> allocate(std::shared_ptr<Devices> devices, size_t bytes, Access access) {
    if (bytes == 0) return failure(Code::kInvalid, "a region has at least one byte");
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return Status::from_errno(errno, fmt::format("{} bytes cannot be mapped", bytes));
    Mapping mapping({static_cast<std::byte*>(pages), bytes});
    // This is only a hint. Huge pages need fewer translations in the device.
    madvise(pages, bytes, MADV_HUGEPAGE);
    std::span<std::byte> memory = mapping.pages();
    return VerbsRegion::create(std::move(devices), memory, std::move(mapping), access);
}

}  // namespace wss::fabric::verbs
