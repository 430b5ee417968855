// SPDX-License-Identifier: Apache-2.0
// The message rings of one connection: a memory area that both ends map, with a byte ring for each direction.
// Each ring has one producer, one consumer and no locks. The peer may write any value anywhere in the area at
// any time: each end keeps its own positions in private memory and checks those of the peer.
//
// Sleeping. An end that is about to sleep sets its word in `asleep`, then examines the rings once more. An
// end that has moved a position reads the other end's word. All four accesses are sequentially consistent, so
// at least one end detects the change of the other. So no message is missed, and two busy ends make no system
// calls.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/fabric/shm/mapping.h"

namespace wss::fabric::shm {

constexpr size_t kRingBytes = 128u << 10;
static_assert((kRingBytes & (kRingBytes - 1)) == 0, "positions wrap by masking");

struct alignas(64) SharedWord64 {
    std::atomic<uint64_t> value;
};
struct alignas(64) SharedWord32 {
    std::atomic<uint32_t> value;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "a lock would exist in only one process");

struct Area {
    struct Direction {
        SharedWord64 head;  // bytes produced; written by the producer
        SharedWord64 tail;  // bytes consumed; written by the consumer
        std::byte data[kRingBytes];
    };
    Direction directions[2];  // written by side 0, by side 1
    SharedWord32 asleep[2];   // words of side 0 and side 1: kSleeps, kWantsSpace
};
constexpr uint32_t kSleeps = 1;
constexpr uint32_t kWantsSpace = 2;

class Rings {
  public:
    Rings() = default;
    // Side 0 connects, and side 1 accepts.
    void attach(Mapping area, int side) noexcept;
    void detach() noexcept;
    explicit operator bool() const { return area_ != nullptr; }

    // These work like Engine::read() and write(). They return -EPROTO if the peer's position is invalid.
    ssize_t read(std::span<const iovec> into) noexcept;
    ssize_t write(std::span<const iovec> from) noexcept;
    bool has_data() const noexcept;
    bool has_space() const noexcept;  // true if a write() that found no space may succeed now

    // Returns true if this end is now asleep, and the peer will wake it. Returns false if data or space is
    // already available.
    bool sleep() noexcept;
    void awake() noexcept;
    // Call this after read() or write(). Returns true if the peer must be woken, at most once per sleep.
    bool peer_needs_waking() noexcept;

  private:
    Mapping mapping_;
    Area* area_ = nullptr;
    int side_ = 0;
    uint64_t head_ = 0;  // position in the direction that this side writes
    uint64_t tail_ = 0;  // position in the direction that this side reads
    bool blocked_ = false;
    bool wrote_ = false;
    bool read_ = false;
};

}  // namespace wss::fabric::shm
