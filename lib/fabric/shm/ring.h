// SPDX-License-Identifier: Apache-2.0
// The message rings of one connection: a memory area that both ends map, with a ring of bytes in each
// direction. One producer, one consumer, no locks. The peer may write anything anywhere in the area at any
// time: each end keeps its own positions in private memory and takes the peer's as a claim to be checked.
//
// Sleeping. Before an end sleeps it says so in its word, then looks once more; after an end has moved a
// position it looks whether the other sleeps. All four are sequentially consistent: at least one of the two
// sees the other, so a message is never slept through, and two busy ends never make a system call.
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
static_assert(std::atomic<uint64_t>::is_always_lock_free, "a lock would be in one process only");

struct Area {
    struct Direction {
        SharedWord64 head;  // bytes produced; written by the producer
        SharedWord64 tail;  // bytes consumed; written by the consumer
        std::byte data[kRingBytes];
    };
    Direction directions[2];  // written by side 0, by side 1
    SharedWord32 asleep[2];   // of side 0, 1: kSleeps, kWantsSpace
};
constexpr uint32_t kSleeps = 1;
constexpr uint32_t kWantsSpace = 2;

class Rings {
  public:
    Rings() = default;
    // `side`: 0 connects, 1 accepts.
    void attach(Mapping area, int side) noexcept;
    void detach() noexcept;
    explicit operator bool() const { return area_ != nullptr; }

    // As Engine::read and write; -EPROTO when the peer's position cannot be true.
    ssize_t read(std::span<const iovec> into) noexcept;
    ssize_t write(std::span<const iovec> from) noexcept;
    bool has_data() const noexcept;
    bool has_space() const noexcept;  // for the write that failed

    // True: asleep, and the peer will wake us. False: there is news already.
    bool sleep() noexcept;
    void awake() noexcept;
    // After read() or write(): must the peer be woken? True at most once per sleep of its.
    bool peer_needs_waking() noexcept;

  private:
    Mapping mapping_;
    Area* area_ = nullptr;
    int side_ = 0;
    uint64_t head_ = 0;  // of the direction we write
    uint64_t tail_ = 0;  // of the direction we read
    bool blocked_ = false;
    bool wrote_ = false;
    bool read_ = false;
};

}  // namespace wss::fabric::shm
