// SPDX-License-Identifier: Apache-2.0
// ReadBuffers: registered memory for one-sided reads, in chunks.
//
// Thread-safety: none; belongs to its session. A chunk belongs to its taker, and to the fabric while a read
// into it is in flight.
#pragma once

#include <memory>
#include <vector>

#include "lib/fabric/fabric.h"

namespace wss::kv {

class ReadBuffers {
  public:
    // Fits a slot with two records of the size that servers keep inline (slot_format.h), and a little more.
    static constexpr uint32_t kChunk = 5 * 1024;
    static constexpr uint32_t kChunks = 512;
    static constexpr uint32_t kScratch = kChunks;  // an extra chunk, never taken: for reads within one call

    Status open(fabric::Fabric& fabric) {
        auto region = fabric.allocate(size_t{kChunk} * (kChunks + 1), fabric::Access::kLocal);
        if (!region) return region.status().within("memory for one-sided reads");
        region_ = std::move(*region);
        for (uint32_t i = kChunks; i > 0; --i) free_.push_back(i - 1);
        return Status::ok();
    }
    bool is_open() const { return region_ != nullptr; }
    // Result of take() if all chunks are taken.
    static constexpr uint32_t kNone = UINT32_MAX;
    uint32_t take() noexcept {
        if (free_.empty()) return kNone;
        uint32_t chunk = free_.back();
        free_.pop_back();
        return chunk;
    }
    void give_back(uint32_t chunk) noexcept { free_.push_back(chunk); }
    std::byte* data(uint32_t chunk) const { return region_->bytes().data() + size_t{chunk} * kChunk; }
    fabric::Segment segment(uint32_t chunk, uint32_t length) const {
        return {.address = data(chunk), .length = length, .lkey = region_->lkey()};
    }

  private:
    std::unique_ptr<fabric::Region> region_;
    std::vector<uint32_t> free_;
};

}  // namespace wss::kv
