// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/verbs/region.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>

namespace wss::fabric::verbs {

// Pages that the region owns, or none (the caller's memory).
class Mapping {
  public:
    Mapping() = default;
    explicit Mapping(std::span<std::byte> pages) : pages_(pages) {}
    Mapping(Mapping&& other) noexcept : pages_(std::exchange(other.pages_, {})) {}
    Mapping& operator=(Mapping&&) = delete;
    ~Mapping() {
        if (!pages_.empty()) munmap(pages_.data(), pages_.size());
    }
    std::span<std::byte> pages() const { return pages_; }

  private:
    std::span<std::byte> pages_;
};

class VerbsRegion final : public Region {
  public:
    VerbsRegion(std::shared_ptr<Device> device, Mapping mapping, Mr mr)
        : device_(std::move(device)), mapping_(std::move(mapping)), mr_(std::move(mr)) {
        bytes_ = {static_cast<std::byte*>(mr_->addr), mr_->length};
        remote_address_ = reinterpret_cast<uint64_t>(mr_->addr);
        set_rkey(0, mr_->rkey);
        lkey_ = mr_->lkey;
    }

  private:
    std::shared_ptr<Device> device_;
    Mapping mapping_;
    Mr mr_;  // destroyed first
};

static int flags_of(Access access) {
    // Some devices allow remote writes only with local write access.
    int flags = IBV_ACCESS_LOCAL_WRITE;
    if (access == Access::kRemoteRead || access == Access::kRemoteReadWrite) flags |= IBV_ACCESS_REMOTE_READ;
    if (access == Access::kRemoteWrite || access == Access::kRemoteReadWrite)
        flags |= IBV_ACCESS_REMOTE_WRITE;
    return flags;
}

static Status not_registered(const Device& device, size_t bytes, int error) {
    rlimit locked{};
    getrlimit(RLIMIT_MEMLOCK, &locked);
    if ((error == ENOMEM || error == EPERM) && locked.rlim_cur != RLIM_INFINITY)
        return Status::from_errno(
            error, fmt::format("{}: {} bytes cannot be pinned; this process may lock {} bytes: raise "
                               "'ulimit -l' (LimitMEMLOCK= of a service)",
                               device.name(), bytes, locked.rlim_cur));
    return Status::from_errno(error, fmt::format("{}: {} bytes cannot be registered", device.name(), bytes));
}

static Result<std::unique_ptr<Region>> make(std::shared_ptr<Device> device, std::span<std::byte> memory,
                                            Mapping mapping, Access access) {
    Mr mr(ibv_reg_mr(device->pd(), memory.data(), memory.size(), flags_of(access)));
    if (mr == nullptr) return not_registered(*device, memory.size(), errno);
    return std::unique_ptr<Region>(
        std::make_unique<VerbsRegion>(std::move(device), std::move(mapping), std::move(mr)));
}

Result<std::unique_ptr<Region>> register_memory(std::shared_ptr<Device> device, std::span<std::byte> memory,
                                                Access access) {
    if (memory.empty()) return failure(Code::kInvalid, "a region has at least one byte");
    return make(std::move(device), memory, Mapping(), access);
}

Result<std::unique_ptr<Region>> allocate(std::shared_ptr<Device> device, size_t bytes, Access access) {
    if (bytes == 0) return failure(Code::kInvalid, "a region has at least one byte");
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return Status::from_errno(errno, fmt::format("{} bytes cannot be mapped", bytes));
    Mapping mapping({static_cast<std::byte*>(pages), bytes});
    // This is only a hint. Huge pages need fewer translations in the device.
    madvise(pages, bytes, MADV_HUGEPAGE);
    std::span<std::byte> memory = mapping.pages();
    return make(std::move(device), memory, std::move(mapping), access);
}

}  // namespace wss::fabric::verbs
