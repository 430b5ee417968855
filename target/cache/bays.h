// SPDX-License-Identifier: Apache-2.0
// Bays: memory of a real storage (RS) on another node of which we dispose, and that RS as a client of the
// engines: what fills lines and what is brought home goes straight between the two.
//
//   take ─▶ the RS reads the disk into it, an engine READs from it (or: an engine WRITEs to it, the RS writes
//   the disk from it) ─▶ give_back
//
// Rules
//  SB1  A bay goes from hand to hand by the word of who had it: DONE. An engine that did not say so may still
//       move data. Then the bay is distrusted, and is free only when the RS says that its connection to that
//       engine is over (kEngineGone).
//  SB2  Bays end with the link to their RS. Who still has one gives it back to nobody:
//       StorageNodes::reached_by() finds none.
//
// Thread-safety: belongs to the cache's reactor. Nothing is allocated for a bay but when it is distrusted.
#pragma once

#include <unordered_set>
#include <vector>

#include "target/cache/engine_link.h"

namespace wss::se {

constexpr uint32_t kBayUnit = 64 * 1024;

// Whole units, side by side.
struct Bay {
    uint32_t first = 0, count = 0;  // count 0: none
    cache::EngineIndex storage;     // whose
    uint32_t incarnation = 0;
    explicit operator bool() const noexcept { return count != 0; }
    // As the RS names it: from where they begin.
    uint64_t place() const noexcept { return uint64_t{first} * kBayUnit; }
};

class Bays {
  public:
    static constexpr uint32_t kUnitsMax = 4096;

    Bays(const wire::CacheBays& memory, cache::EngineIndex storage, uint32_t incarnation);

    // None when all are in use.
    Bay take(uint32_t bytes) noexcept;
    void give_back(const Bay& bay) noexcept;
    // The engine to which the RS is connected by `handle` did not say that it is done with the bay.
    void distrust(const Bay& bay, uint64_t handle);
    // The RS was told to connect by this handle; … and says that this is over.
    void named(uint64_t handle) { open_.insert(handle); }
    void gone(uint64_t handle);

    // `offset` bytes behind the bay's beginning, as engines name it.
    wire::RemoteBuffer remote(const Bay& bay, uint32_t offset, uint32_t length) const noexcept;
    uint32_t free_units() const noexcept { return free_; }

  private:
    struct Distrusted {
        Bay bay;
        std::vector<uint64_t> handles;
        bool returned = false;
    };
    void mark(const Bay& bay, bool taken) noexcept;

    const wire::CacheBays memory_;
    const cache::EngineIndex storage_;
    const uint32_t incarnation_;
    std::vector<bool> taken_;  // by unit
    uint32_t free_ = 0, next_ = 0;
    std::unordered_set<uint64_t> open_;
    std::vector<Distrusted> distrusted_;
};

}  // namespace wss::se
