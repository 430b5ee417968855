// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/shm/mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

namespace wss::fabric::shm {

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    if (this != &other) {
        reset();
        bytes_ = std::exchange(other.bytes_, {});
    }
    return *this;
}

void Mapping::reset() noexcept {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
    bytes_ = {};
}

static Mapping map(int fd, size_t bytes, int protection) {
    void* memory = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return Mapping();
    return Mapping({static_cast<std::byte*>(memory), bytes});
}

Result<SharedMemory> make_shared(const char* name, size_t bytes, bool read_only) {
    SharedMemory shared;
    shared.fd = Descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (shared.fd && ftruncate(shared.fd.get(), static_cast<off_t>(bytes)) == 0)
        shared.mapping = map(shared.fd.get(), bytes, PROT_READ | PROT_WRITE);
    if (!shared.mapping)
        return Status::from_errno(errno, fmt::format("cannot create {} bytes of shared memory", bytes));
    // The memory is sealed after our own mapping, because F_SEAL_FUTURE_WRITE does not affect existing
    // mappings.
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | (read_only ? F_SEAL_FUTURE_WRITE : 0) | F_SEAL_SEAL;
    if (fcntl(shared.fd.get(), F_ADD_SEALS, seals) != 0)
        return Status::from_errno(errno, "cannot seal shared memory");
    return shared;
}

Result<Mapping> map_shared(int fd, size_t bytes, bool writable) {
    int seals = fcntl(fd, F_GET_SEALS);  // fails for anything other than a memfd
    struct stat status {};
    struct statfs system {};
    // When the owner punches a hole, ordinary memory is refilled with zeros. With huge pages, an access to
    // the hole raises SIGBUS here once the huge pages have run out.
    bool fixed = seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstatfs(fd, &system) == 0 &&
                 system.f_type != HUGETLBFS_MAGIC;
    if (!fixed || fstat(fd, &status) != 0 || static_cast<uint64_t>(status.st_size) < bytes)
        return failure(Code::kInvalid, "the peer's shared memory is too small or not sealed");
    Mapping mapping = map(fd, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ);
    if (!mapping) return Status::from_errno(errno, "cannot map the peer's shared memory");
    return mapping;
}

}  // namespace wss::fabric::shm
