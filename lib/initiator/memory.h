// SPDX-License-Identifier: Apache-2.0
// Memory that a target may access: the bounce arena and the table of registered regions.
//
// RegionTable holds three kinds of memory. Memory that was allocated here, or registered by the caller, stays
// until the caller releases it. *Pinned* memory is other memory: it was registered when a request used it,
// and stays registered for later requests. The least recently used pin is dropped first. Ranges in the table
// never overlap, so that a lookup is one binary search. A new range that overlaps pins drops those (they may
// be stale); one that overlaps memory of the caller is refused.
//
// A registration used by a command on the wire is *held*: revoking it would close the connection. Dropped
// pins that are held are destroyed with the last hold.
//
// Over shm only allocated memory is used directly. Other memory is copied: see copies_registered().
//
// Thread-safety: belongs to the session's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/list.h"
#include "lib/base/status.h"
#include "lib/fabric/fabric.h"
#include "lib/wire/srp.h"

namespace wss::initiator {

// True over shm: a target has no direct access to memory that this process registered; the data would have to
// pass through a ring (lib/fabric/shm/shm.h). A copy in the bounce arena, which the target maps, takes a
// third of that time for 1 MiB.
inline bool copies_registered(const fabric::Fabric& fabric) {
    return fabric.caps().name == "shm";
}

// A run of chunks of the bounce arena.
struct Bounce {
    uint32_t first = 0;
    uint32_t chunks = 0;
};

// Preregistered memory, allocated in runs of chunks, first fit. With 512 chunks the bitmap has eight words.
class BouncePool {
  public:
    static Result<std::unique_ptr<BouncePool>> create(fabric::Fabric& fabric, size_t bytes);

    // Allocates `bytes`; nullopt when there is no room now.
    std::optional<Bounce> take(size_t bytes) noexcept;
    void give_back(Bounce bounce) noexcept;
    std::byte* data(Bounce bounce) const noexcept;
    wire::RemoteBuffer remote(Bounce bounce, uint32_t length, size_t device) const noexcept;
    size_t largest() const noexcept { return region_->bytes().size(); }
    uint32_t in_use() const noexcept { return in_use_; }

  private:
    explicit BouncePool(std::unique_ptr<fabric::Region> region);

    std::unique_ptr<fabric::Region> region_;
    std::vector<bool> taken_;
    uint32_t in_use_ = 0;
    uint32_t hint_ = 0;  // all chunks below are taken
};

class RegionTable {
  public:
    struct Limits {
        uint32_t pins_max = 64;
        size_t pin_bytes_max = size_t{64} << 20;
    };
    struct Entry : ListNode<> {
        std::unique_ptr<fabric::Region> region;
        uint32_t holds = 0;
        bool pinned = false;
        bool copied = false;   // requests copy from and to it, but still hold it
        bool dropped = false;  // no longer in the table; destroyed with the last hold
        const std::byte* begin() const { return region->bytes().data(); }
        const std::byte* end() const { return begin() + region->bytes().size(); }
        wire::RemoteBuffer remote(std::span<const std::byte> part, size_t device) const;
    };

    RegionTable(fabric::Fabric& fabric, Limits limits) : fabric_(fabric), limits_(limits) {}
    ~RegionTable();

    // The registration that covers all of `memory`; nullptr if there is none.
    Entry* find(std::span<const std::byte> memory) noexcept;
    // The same as find(), but registers the pages around `memory` if there is no registration. Returns
    // nullptr when that fails (limits, read-only memory), or when the pages overlap memory of the caller.
    Entry* find_or_pin(std::span<std::byte> memory) noexcept;
    void hold(Entry& entry) noexcept { ++entry.holds; }
    void release(Entry& entry) noexcept;

    // Adds memory of the caller until remove(). `region` covers it.
    Status add(std::unique_ptr<fabric::Region> region, bool copied = false);
    // Fails with kBusy while a request uses the region, and with kNotFound if no region of the caller begins
    // at `memory`.
    Result<std::unique_ptr<fabric::Region>> remove(const std::byte* memory);
    // Drops pins that overlap `memory`. Call before the memory is unmapped or freed.
    void invalidate(std::span<const std::byte> memory);

    size_t pins() const noexcept { return pins_; }
    size_t pinned_bytes() const noexcept { return pinned_bytes_; }

  private:
    using Table = std::vector<std::unique_ptr<Entry>>;
    Table::iterator first_beyond(const std::byte* address) noexcept;
    bool overlaps_own(std::span<const std::byte> memory) noexcept;
    void insert(std::unique_ptr<Entry> entry);
    void drop(Table::iterator at);
    void make_room(size_t bytes);

    fabric::Fabric& fabric_;
    const Limits limits_;
    Table table_;                                  // ordered by address
    std::vector<std::unique_ptr<Entry>> dropped_;  // still held
    List<Entry> lru_;                              // pins in the table, least recently used first
    Entry* last_ = nullptr;                        // latest result of find(): requests often repeat a region
    size_t pins_ = 0;
    size_t pinned_bytes_ = 0;
};

}  // namespace wss::initiator
