// SPDX-License-Identifier: Apache-2.0
// Memory that a target may reach: the bounce arena and the table of registered regions.
//
// RegionTable knows three kinds of memory: allocated by us, registered by the caller (both until he takes
// them back), and *pinned*: foreign memory that was registered when a request used it and is kept for the
// next time, least recently used first out. Ranges in the table never overlap, so that a lookup is one binary
// search; a new range that overlaps pins drops those (they may be stale), one that overlaps the caller's own
// is refused.
//
// A registration used by a command on the wire is *held*: revoking it would close the connection. Dropped
// pins that are held die with the last hold.
//
// Over shm only allocated memory is used as it is. The rest is copied: see copies_registered().
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

// True over shm: a target does not move memory that we registered, we would have to do that through a ring
// (lib/fabric/shm/shm.h). A copy in the bounce arena, which the target maps, costs a third for 1 MiB.
inline bool copies_registered(const fabric::Fabric& fabric) {
    return fabric.caps().name == "shm";
}

// A run of chunks of the bounce arena.
struct Bounce {
    uint32_t first = 0;
    uint32_t chunks = 0;
};

// Pre-registered memory, given out in runs of chunks, first fit. 512 chunks are eight words to look at.
class BouncePool {
  public:
    static Result<std::unique_ptr<BouncePool>> create(fabric::Fabric& fabric, size_t bytes);

    // Room for `bytes`, nothing when there is none now.
    std::optional<Bounce> take(size_t bytes) noexcept;
    void give_back(Bounce bounce) noexcept;
    std::byte* data(Bounce bounce) const noexcept;
    wire::RemoteBuffer remote(Bounce bounce, uint32_t length) const noexcept;
    size_t largest() const noexcept { return region_->bytes().size(); }
    uint32_t in_use() const noexcept { return in_use_; }

  private:
    explicit BouncePool(std::unique_ptr<fabric::Region> region);

    std::unique_ptr<fabric::Region> region_;
    std::vector<bool> taken_;
    uint32_t in_use_ = 0;
    uint32_t hint_ = 0;  // no free chunk below
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
        bool copied = false;   // requests copy from and to it, and hold it all the same
        bool dropped = false;  // not in the table any more; dies with the last hold
        const std::byte* begin() const { return region->bytes().data(); }
        const std::byte* end() const { return begin() + region->bytes().size(); }
        wire::RemoteBuffer remote(std::span<const std::byte> part) const;
    };

    RegionTable(fabric::Fabric& fabric, Limits limits) : fabric_(fabric), limits_(limits) {}
    ~RegionTable();

    // The registration that covers all of `memory`, nullptr if there is none.
    Entry* find(std::span<const std::byte> memory) noexcept;
    // find(), else registers the pages around `memory`; nullptr when that fails (limits, read-only memory).
    Entry* find_or_pin(std::span<std::byte> memory) noexcept;
    void hold(Entry& entry) noexcept { ++entry.holds; }
    void release(Entry& entry) noexcept;

    // The caller's memory, from now on and until remove(). `region` covers it.
    Status add(std::unique_ptr<fabric::Region> region, bool copied = false);
    // kBusy while a request uses it, kNotFound if `memory` does not begin one.
    Result<std::unique_ptr<fabric::Region>> remove(const std::byte* memory);
    // Forgets pins that touch `memory`: before the caller unmaps or frees it.
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
    Table table_;                                  // by address
    std::vector<std::unique_ptr<Entry>> dropped_;  // still held
    List<Entry> lru_;                              // pins in the table, least recently used first
    Entry* last_ = nullptr;                        // what find() found: requests tend to use the same again
    size_t pins_ = 0;
    size_t pinned_bytes_ = 0;
};

}  // namespace wss::initiator
