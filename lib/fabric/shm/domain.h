// SPDX-License-Identifier: Apache-2.0
// Domain: state that all pollers, regions and connections of one shm fabric share: the table of regions, and
// the validity page, which shows peers which regions are valid.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/fabric/shm/mapping.h"
#include "lib/fabric/stream/region_table.h"

namespace wss::fabric::shm {

constexpr uint32_t kSlots = 1u << 16;  // regions that peers can map; further ones are accessed through frames
constexpr uint32_t kNoSlot = kSlots;
constexpr size_t kValidityBytes = kSlots * sizeof(std::atomic<uint32_t>);

// A region's entry in the validity page. The region is valid while the word there equals `generation`.
struct Validity {
    uint32_t slot = kNoSlot;
    uint32_t generation = 0;
};

class Domain {
  public:
    static Result<std::shared_ptr<Domain>> create();

    const std::shared_ptr<stream::RegionTable>& table() const { return table_; }
    int validity_fd() const { return validity_.fd.get(); }

    Validity take_slot() noexcept;
    // Ends the peers' direct access to the region. Their later operations detect this.
    void invalidate(const Validity& validity) noexcept;

  private:
    Domain() = default;
    std::atomic<uint32_t>& word(uint32_t slot) const {
        return reinterpret_cast<std::atomic<uint32_t>*>(validity_.mapping.data())[slot];
    }

    const std::shared_ptr<stream::RegionTable> table_ = std::make_shared<stream::RegionTable>();
    SharedMemory validity_;
    std::mutex lock_;  // protects the members below
    std::vector<uint32_t> free_slots_;
    std::vector<uint32_t> generations_;
};

// A region in a separate memfd, created by allocate(). register_memory() creates a stream::TableRegion.
class SharedRegion final : public Region {
  public:
    SharedRegion(std::shared_ptr<Domain> domain, SharedMemory memory, size_t bytes, Access access);
    ~SharedRegion() override;

    const Validity& validity() const { return validity_; }  // no slot: peers may not map the region
    int fd() const { return memory_.fd.get(); }

  private:
    const std::shared_ptr<Domain> domain_;
    SharedMemory memory_;
    Validity validity_;
};

}  // namespace wss::fabric::shm
