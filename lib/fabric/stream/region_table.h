// SPDX-License-Identifier: Apache-2.0
// RegionTable: the memory of this process that peers of a stream fabric may access, by key.
//
// Keys are random, and a revoked key is not reused for a long while, so that a peer with an old key accesses
// nothing. One key serves as lkey and rkey.
//
// Thread-safety: all functions may be called from any thread. Code that moves data for a READ or WRITE of a
// peer holds guard() from the look-up to the last byte of this turn. remove() waits for the guard, so that
// these transfers never access memory after its region is gone. A guard is held for one read or write of the
// stream (under TLS several system calls), one grant (shm), one copy, or one Engine::build(), which copies
// the data of direct transfers (shm). It is never held while a handler is called.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <unordered_map>

#include "lib/base/clock.h"
#include "lib/fabric/fabric.h"

namespace wss::fabric::stream {

class RegionTable {
  public:
    struct Entry {
        std::span<std::byte> bytes;
        Access access = Access::kLocal;
        bool revoked = false;   // a tombstone: keeps the key from being drawn again
        void* owner = nullptr;  // lets the fabric find its object by key
    };
    using Guard = std::shared_lock<std::shared_mutex>;
    // The latest look-up of a user that looks up the same region repeatedly. Valid until a region is removed.
    struct Memo {
        uint32_t key = 0;  // no region has this one
        uint64_t revocations = 0;
        std::span<std::byte> bytes;
    };

    uint32_t add(std::span<std::byte> bytes, Access access, void* owner = nullptr);
    void remove(uint32_t key) noexcept;

    [[nodiscard]] Guard guard() const { return Guard(lock_); }

    // For the four functions below the caller must hold guard(). Their results are valid while the caller
    // holds the guard.
    //
    // Returns nullptr unless all of [address, address + length) is in the region and `need` is allowed.
    std::byte* remote(RemoteAddress where, uint32_t length, Access need) const noexcept;
    bool is_local(const Segment& segment, Memo& memo) const noexcept;
    const Entry* find(uint32_t key) const noexcept;
    // Increases with every revocation. Equal values mean that earlier look-ups are still valid.
    uint64_t revocations() const noexcept { return revocations_; }

  private:
    uint32_t draw_key();

    mutable std::shared_mutex lock_;  // protects everything below
    std::unordered_map<uint32_t, Entry> entries_;
    std::deque<uint32_t> tombstones_;  // oldest first
    uint64_t revocations_ = 0;
    Random random_{Random::entropy()};
};

constexpr bool allows(Access access, Access need) {
    return (static_cast<uint8_t>(access) & static_cast<uint8_t>(need)) == static_cast<uint8_t>(need);
}

}  // namespace wss::fabric::stream
