// SPDX-License-Identifier: Apache-2.0
// Memory of a partition that remote readers see, allocated in cells of size classes.
//
// The arena is cut into pages. A page serves one class of records until it is empty. Then it may serve
// another. Records larger than kCellMax get runs of whole pages. A page that has served slot extents of one
// class serves them for ever (slot_format.h V1: a stale slot address must always lead to a slot header). Two
// limits apply: slots take at most three quarters of the pages, so that room for values remains; and a
// sixteenth is reserved for tombstones, because deletion and expiry free memory in a full store.
//
// A record whose class has no free cell or page gets a cell of a larger class.
//
// Thread-safety: none. No bookkeeping is in the arena itself, except that a free slot keeps its incarnation
// there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace wss::kv::store {

class Arena {
  public:
    static constexpr uint64_t kNowhere = UINT64_MAX;
    static constexpr size_t kPageBytes = size_t{64} << 10;
    static constexpr size_t kCellMin = 64;  // so that a page has at most kCellsMax
    static constexpr size_t kCellMax = size_t{16} << 10;

    explicit Arena(std::span<std::byte> memory);

    enum class Use : uint8_t { kValue, kTombstone };
    uint64_t allocate_record(size_t bytes, Use use = Use::kValue);
    void free_record(uint64_t offset, size_t bytes);
    // Allocates a slot header with its cells; kCellMin ≤ extent_bytes ≤ kPageBytes.
    uint64_t allocate_extent(size_t extent_bytes);
    void free_extent(uint64_t offset, size_t extent_bytes);

    // The cell size for `bytes`, which must not exceed kCellMax.
    static size_t class_bytes(size_t bytes);

    std::byte* at(uint64_t offset) { return memory_.data() + offset; }
    const std::byte* at(uint64_t offset) const { return memory_.data() + offset; }
    uint64_t bytes() const { return pages_.size() * kPageBytes; }
    uint64_t used() const { return used_; }  // counts whole cells and pages
    uint64_t used_pages_percent() const { return 100 - uint64_t{free_pages_} * 100 / pages_.size(); }

  private:
    static constexpr size_t kCellsMax = kPageBytes / kCellMin;
    static constexpr uint32_t kNoPage = UINT32_MAX;
    struct Page {
        std::array<uint64_t, kCellsMax / 64> free{};  // a bit per cell
        uint32_t free_cells = 0;
        uint16_t record_class = 0;  // used by a page of records
        uint32_t next = kNoPage;    // list of the class's pages with free cells
        uint32_t previous = kNoPage;
    };
    struct Slab {
        uint32_t cell_bytes = 0;
        uint32_t cells = 0;  // per page
        bool permanent = false;
        bool for_tombstones = false;
        uint16_t record_class = 0;
        uint32_t partial = kNoPage;
    };

    // `keep` is the number of pages that must stay free; kNoPage means that no page may be taken.
    uint64_t take_cell(Slab& slab, uint32_t keep);
    uint64_t take_larger_cell(size_t first_class, Use use);
    void give_cell(Slab& slab, uint64_t offset);
    void link(Slab& slab, uint32_t page);
    void unlink(Slab& slab, uint32_t page);
    uint32_t take_pages(uint32_t count, uint32_t keep);
    void give_pages(uint32_t first, uint32_t count);

    std::span<std::byte> memory_;
    std::vector<Page> pages_;
    std::vector<Slab> records_;               // indexed by class: those for values, then those of the reserve
    std::map<size_t, Slab> extents_;          // indexed by extent size
    std::map<uint32_t, uint32_t> free_runs_;  // first page → count; never adjacent
    const uint32_t reserve_;                  // pages for tombstones
    uint32_t free_pages_ = 0, slot_pages_ = 0;
    uint64_t used_ = 0;
};

}  // namespace wss::kv::store
