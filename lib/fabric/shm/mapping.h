// SPDX-License-Identifier: Apache-2.0
// Shared memory: a mapping that unmaps itself, sealed memfds, and checks of a peer's memfd.
#pragma once

#include <cstddef>
#include <span>

#include "lib/base/status.h"
#include "lib/fabric/stream/poller.h"

namespace wss::fabric::shm {

class Mapping {
  public:
    Mapping() = default;
    explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
    Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    Mapping& operator=(Mapping&& other) noexcept;
    ~Mapping() { reset(); }
    std::span<std::byte> bytes() const { return bytes_; }
    std::byte* data() const { return bytes_.data(); }
    explicit operator bool() const { return !bytes_.empty(); }
    void reset() noexcept;

  private:
    std::span<std::byte> bytes_;
};

struct SharedMemory {
    Descriptor fd;
    Mapping mapping;  // readable and writable by us
};

// Creates a memfd of a fixed size. With `read_only`, no writable mapping can be created after this one.
Result<SharedMemory> make_shared(const char* name, size_t bytes, bool read_only);
// Maps a peer's memfd. Fails unless it has at least the size `bytes`, is sealed against shrinking and has no
// huge pages. A peer that could shrink it could make our accesses fault. A userfaultfd on the peer's mapping
// does not affect ours.
//
// A peer that keeps punching holes can still make accesses fault. Each fault waits for the fallocate() in
// progress: 0.1 ms on average, 0.5 s at worst on a busy machine. The new pages are charged to this process,
// and beyond the limit of vm.overcommit_memory=2 a fault is SIGBUS. No seal prevents this, because the seals
// that forbid holes also forbid writable mappings. The peer is a process of our user or of root, which could
// stop or kill this process anyway.
Result<Mapping> map_shared(int fd, size_t bytes, bool writable);

}  // namespace wss::fabric::shm
