// SPDX-License-Identifier: Apache-2.0
// Regions of a stream fabric. A region has an entry in the fabric's RegionTable. An allocated one also owns
// its memory.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"
#include "lib/fabric/stream/region_table.h"

namespace wss::fabric::stream {

class TableRegion : public Region {
  public:
    TableRegion(std::shared_ptr<RegionTable> table, std::span<std::byte> memory, Access access,
                void* owner = nullptr);
    ~TableRegion() override { revoke(); }

  protected:
    // Waits for a copy in progress. Has no effect if the region is already revoked. A derived class that owns
    // the memory calls it before it releases the memory.
    void revoke() noexcept { table_->remove(lkey_); }

  private:
    const std::shared_ptr<RegionTable> table_;
};

class AllocatedRegion final : public TableRegion {
  public:
    using TableRegion::TableRegion;
    ~AllocatedRegion() override;
};

Result<std::unique_ptr<Region>> allocate(const std::shared_ptr<RegionTable>& table, size_t bytes,
                                         Access access);
Result<std::unique_ptr<Region>> register_memory(const std::shared_ptr<RegionTable>& table,
                                                std::span<std::byte> memory, Access access);
// Returns `bytes` rounded up to whole pages, or 0 if that overflows.
size_t whole_pages(size_t bytes) noexcept;

}  // namespace wss::fabric::stream
