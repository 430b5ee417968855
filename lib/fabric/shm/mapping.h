// SPDX-License-Identifier: Apache-2.0
// Shared memory as objects: a mapping that unmaps itself, sealed memfds, and what is checked of a peer's
// memfd.
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

// A memfd of a fixed size. `read_only`: nobody but us, now, can map it writable.
Result<SharedMemory> make_shared(const char* name, size_t bytes, bool read_only);
// Maps a peer's memfd. Fails unless it has that size and is sealed against shrinking, which would let the
// peer fault us. A userfaultfd that the peer has on its own mapping does not concern ours.
// A peer that punches holes without end still makes accesses fault, and each fault waits for the fallocate()
// in progress: 0.1 ms on average, 0.5 s at worst on a busy machine. The new pages are charged to us, and
// beyond the limit of vm.overcommit_memory=2 a fault is SIGBUS. No seal prevents it: those that forbid holes
// forbid writable mappings too. The peer is a process of our user, which could as well stop or kill us.
Result<Mapping> map_shared(int fd, size_t bytes, bool writable);

}  // namespace wss::fabric::shm
