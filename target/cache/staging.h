// SPDX-License-Identifier: Apache-2.0
// StagingPool: the staging buffers, which are memory that a storage process (RS) lends to the target. The RS
// is also a client of the engines. Fills and destaging move data directly between the RS and the engines.
//
//   take ─▶ fill: the RS reads the disk into the buffer, an engine READs from it
//           destage: an engine WRITEs to the buffer, the RS writes the disk from it      ─▶ give_back
//
// Rules
//  SB1  A staging buffer passes to its next user when the present one reports DONE. An engine that did not
//       report this may still move data. The buffer is then quarantined. It becomes free only when the RS
//       reports that its connection to that engine is closed (kEngineGone).
//  SB2  Staging buffers end with the link to their RS. If a user returns one later, this has no effect,
//       because StorageNodes::reached_by() finds no owner.
//
// Thread-safety: belongs to the cache's reactor. Allocates for a staging buffer only when it is quarantined.
#pragma once

#include <unordered_set>
#include <vector>

#include "target/cache/engine_link.h"

namespace wss::cache {

constexpr uint32_t kStagingUnit = 64 * 1024;

// A staging buffer: a whole number of adjacent units.
struct StagingBuffer {
    uint32_t first = 0, count = 0;  // count 0: no buffer
    EngineIndex storage;            // the RS that lends it
    uint32_t incarnation = 0;
    explicit operator bool() const noexcept { return count != 0; }
    // Offset in the RS's memory of staging buffers, in bytes.
    uint64_t place() const noexcept { return uint64_t{first} * kStagingUnit; }
};

class StagingPool {
  public:
    static constexpr uint32_t kUnitsMax = 4096;

    StagingPool(const wire::CacheStaging& memory, EngineIndex storage, uint32_t incarnation);

    // Returns no buffer (count 0) if no stretch of that size is free.
    StagingBuffer take(uint32_t bytes) noexcept;
    void give_back(const StagingBuffer& staging) noexcept;
    // The engine to which the RS is connected by `handle` did not report that it is done with the buffer.
    void quarantine(const StagingBuffer& staging, uint64_t handle);
    // The target has requested that the RS connect with this handle.
    void named(uint64_t handle) { open_.insert(handle); }
    // The RS has reported that this connection is closed.
    void gone(uint64_t handle);

    // The address, for engines, of the byte at `offset` in the buffer.
    wire::RemoteBuffer remote(const StagingBuffer& staging, uint32_t offset, uint32_t length) const noexcept;
    uint32_t free_units() const noexcept { return free_; }

  private:
    struct Quarantined {
        StagingBuffer staging;
        std::vector<uint64_t> handles;
        bool returned = false;
    };
    void mark(const StagingBuffer& staging, bool taken) noexcept;

    const wire::CacheStaging memory_;
    const EngineIndex storage_;
    const uint32_t incarnation_;
    std::vector<bool> taken_;  // by unit
    uint32_t free_ = 0, next_ = 0;
    std::unordered_set<uint64_t> open_;
    std::vector<Quarantined> quarantined_;
};

}  // namespace wss::cache
