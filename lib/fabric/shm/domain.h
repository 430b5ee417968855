// SPDX-License-Identifier: Apache-2.0
// Domain: what all pollers, regions and connections of one shm fabric share. The table of regions, the page
// that tells peers which regions are valid, and the words that tell us which foreign region a peer is busy
// in.
//
// Thread-safety: all functions.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/fabric/shm/mapping.h"
#include "lib/fabric/stream/region_table.h"

namespace wss::fabric::shm {

constexpr uint32_t kSlots = 1u << 16;  // regions that peers can reach themselves; more are reached by frames
constexpr uint32_t kNoSlot = kSlots;
constexpr size_t kValidityBytes = kSlots * sizeof(std::atomic<uint32_t>);

// A region's place in the validity page: valid while the word there is `generation`.
struct Validity {
    uint32_t slot = kNoSlot;
    uint32_t generation = 0;
};

// How peers reach a region themselves: by a mapping of their own, which outlives the region, or by system
// calls on our memory, which may be freed when the region is gone.
enum class Reach : uint8_t { kMapped, kForeign };

class Domain {
  public:
    static Result<std::shared_ptr<Domain>> create();

    const std::shared_ptr<stream::RegionTable>& table() const { return table_; }
    int validity_fd() const { return validity_.fd.get(); }

    Validity take_slot() noexcept;
    // Peers stop using the region: later operations see it, those in progress in foreign memory are waited
    // for, a bounded time. The slot of a region in which a peer still claims to be busy is not used again
    // until that peer is done or gone.
    void invalidate(const Validity& validity, Reach reach) noexcept;

    // The word in which a peer says what it is busy in, for as long as its connection lives.
    void add_peer(const std::atomic<uint32_t>* busy);
    void remove_peer(const std::atomic<uint32_t>* busy) noexcept;

  private:
    Domain() = default;
    bool anyone_busy_in(uint32_t slot) const noexcept;  // REQUIRES lock_
    void reclaim_stuck() noexcept;                      // REQUIRES lock_
    std::atomic<uint32_t>& word(uint32_t slot) const {
        return reinterpret_cast<std::atomic<uint32_t>*>(validity_.mapping.data())[slot];
    }

    const std::shared_ptr<stream::RegionTable> table_ = std::make_shared<stream::RegionTable>();
    SharedMemory validity_;
    std::mutex lock_;  // protects what follows
    std::vector<uint32_t> free_slots_;
    std::vector<uint32_t> stuck_slots_;  // a peer was busy there for longer than we wait
    std::vector<uint32_t> generations_;
    std::vector<const std::atomic<uint32_t>*> peers_;
};

// A region of this fabric: in a memfd of its own (allocated) or anywhere (registered).
class ShmRegion final : public Region {
  public:
    ShmRegion(std::shared_ptr<Domain> domain, SharedMemory memory, size_t bytes, Access access);
    ShmRegion(std::shared_ptr<Domain> domain, std::span<std::byte> memory, Access access);
    ~ShmRegion() override;

    const Validity& validity() const { return validity_; }
    Reach reach() const { return reach_; }
    int fd() const { return memory_.fd.get(); }  // -1: foreign memory

  private:
    void enter(std::span<std::byte> bytes, Access access);

    const std::shared_ptr<Domain> domain_;
    SharedMemory memory_;
    Validity validity_;
    Reach reach_ = Reach::kForeign;
};

}  // namespace wss::fabric::shm
