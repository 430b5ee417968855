// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/arena.h"

#include <algorithm>
#include <bit>

#include "lib/base/assert.h"

namespace wss::kv::store {
namespace {

// Four classes per doubling: at most a fifth of a cell is waste.
constexpr size_t class_index(size_t bytes) {
    if (bytes <= Arena::kCellMin) return 0;
    const size_t octave = std::bit_width(bytes - 1) - 1;  // 2^octave < bytes ≤ 2^(octave + 1)
    const size_t quarter = ((bytes - 1) >> (octave - 2)) & 3;
    return (octave - 6) * 4 + quarter + 1;
}

constexpr size_t size_of_class(size_t index) {
    const size_t octave = index / 4 + 6;
    return (size_t{1} << octave) + (index % 4) * (size_t{1} << (octave - 2));
}
static_assert(class_index(64) == 0 && class_index(65) == 1 && size_of_class(1) == 80);
static_assert(class_index(80) == 1 && class_index(81) == 2 && class_index(128) == 4 &&
              size_of_class(4) == 128);
static_assert(size_of_class(class_index(Arena::kCellMax)) == Arena::kCellMax);

constexpr uint32_t kReserveShare = 16;       // one of this many pages
constexpr uint32_t kSlotShare_percent = 75;  // maximum share of the pages
// A value gets a cell of at most twice the size of its class; a tombstone any cell.
constexpr size_t kLargerClasses = 4;

constexpr size_t kClasses = class_index(Arena::kCellMax) + 1;

constexpr uint32_t pages_of(size_t bytes) {
    return static_cast<uint32_t>((bytes + Arena::kPageBytes - 1) / Arena::kPageBytes);
}

}  // namespace

size_t Arena::class_bytes(size_t bytes) {
    return size_of_class(class_index(bytes));
}

Arena::Arena(std::span<std::byte> memory)
    : memory_(memory),
      pages_(memory.size() / kPageBytes),
      reserve_(static_cast<uint32_t>(pages_.size() / kReserveShare)),
      free_pages_(static_cast<uint32_t>(pages_.size())) {
    for (size_t i = 0; i < 2 * kClasses; i++) {
        const auto bytes = static_cast<uint32_t>(size_of_class(i % kClasses));
        records_.push_back({.cell_bytes = bytes,
                            .cells = static_cast<uint32_t>(kPageBytes / bytes),
                            .for_tombstones = i >= kClasses,
                            .record_class = static_cast<uint16_t>(i)});
    }
    if (!pages_.empty()) free_runs_.emplace(0, static_cast<uint32_t>(pages_.size()));
}

uint64_t Arena::allocate_record(size_t bytes, Use use) {
    const uint32_t keep = use == Use::kTombstone ? 0 : reserve_;
    if (bytes <= kCellMax) {
        const size_t index = class_index(bytes);
        uint64_t offset = take_cell(records_[index], reserve_);
        if (offset == kNowhere) offset = take_larger_cell(index + 1, use);
        // Pages of the reserve have separate classes; otherwise values would fill the free cells that
        // tombstones leave in them.
        if (offset == kNowhere && use == Use::kTombstone) offset = take_cell(records_[kClasses + index], 0);
        return offset;
    }
    const uint32_t count = pages_of(bytes);
    const uint32_t first = take_pages(count, keep);
    if (first == kNoPage) return kNowhere;
    used_ += count * kPageBytes;
    return first * kPageBytes;
}

uint64_t Arena::take_larger_cell(size_t first_class, Use use) {
    const size_t end = use == Use::kTombstone ? kClasses : std::min(kClasses, first_class + kLargerClasses);
    for (size_t index = first_class; index < end; index++)
        if (records_[index].partial != kNoPage) return take_cell(records_[index], kNoPage);
    return kNowhere;
}

void Arena::free_record(uint64_t offset, size_t bytes) {
    if (bytes <= kCellMax) return give_cell(records_[pages_[offset / kPageBytes].record_class], offset);
    used_ -= pages_of(bytes) * kPageBytes;
    give_pages(static_cast<uint32_t>(offset / kPageBytes), pages_of(bytes));
}

uint64_t Arena::allocate_extent(size_t extent_bytes) {
    auto [at, fresh] = extents_.try_emplace(extent_bytes);
    if (fresh) {
        const auto bytes = static_cast<uint32_t>(extent_bytes);
        at->second = {
            .cell_bytes = bytes, .cells = static_cast<uint32_t>(kPageBytes / bytes), .permanent = true};
    }
    const bool is_share_used = uint64_t{slot_pages_} * 100 >= pages_.size() * kSlotShare_percent;
    return take_cell(at->second, is_share_used ? kNoPage : reserve_);
}

void Arena::free_extent(uint64_t offset, size_t extent_bytes) {
    give_cell(extents_.at(extent_bytes), offset);
}

uint64_t Arena::take_cell(Slab& slab, uint32_t keep) {
    if (slab.partial == kNoPage) {
        const uint32_t fresh = keep == kNoPage ? kNoPage : take_pages(1, keep);
        if (fresh == kNoPage) return kNowhere;
        Page& page = pages_[fresh];
        page.record_class = slab.record_class;
        slot_pages_ += slab.permanent;
        page.free.fill(0);
        for (uint32_t cell = 0; cell < slab.cells; cell++) page.free[cell / 64] |= uint64_t{1} << cell % 64;
        page.free_cells = slab.cells;
        link(slab, fresh);
    }
    const uint32_t index = slab.partial;
    Page& page = pages_[index];
    size_t word = 0;
    while (page.free[word] == 0) word++;
    const auto cell = static_cast<uint32_t>(word * 64 + std::countr_zero(page.free[word]));
    page.free[word] &= page.free[word] - 1;
    if (--page.free_cells == 0) unlink(slab, index);
    used_ += slab.cell_bytes;
    return uint64_t{index} * kPageBytes + uint64_t{cell} * slab.cell_bytes;
}

void Arena::give_cell(Slab& slab, uint64_t offset) {
    const auto index = static_cast<uint32_t>(offset / kPageBytes);
    const auto cell = static_cast<uint32_t>(offset % kPageBytes / slab.cell_bytes);
    Page& page = pages_[index];
    WSS_ASSERT(!(page.free[cell / 64] >> cell % 64 & 1), "a cell is freed once");
    page.free[cell / 64] |= uint64_t{1} << cell % 64;
    used_ -= slab.cell_bytes;
    if (page.free_cells++ == 0) link(slab, index);
    // Keep one empty page, so that a class at the edge does not take and return the same page repeatedly.
    const bool alone = slab.partial == index && page.next == kNoPage;
    if (page.free_cells == slab.cells && !slab.permanent && (!alone || slab.for_tombstones)) {
        unlink(slab, index);
        give_pages(index, 1);
    }
}

void Arena::link(Slab& slab, uint32_t index) {
    Page& page = pages_[index];
    page.previous = kNoPage;
    page.next = slab.partial;
    if (slab.partial != kNoPage) pages_[slab.partial].previous = index;
    slab.partial = index;
}

void Arena::unlink(Slab& slab, uint32_t index) {
    Page& page = pages_[index];
    if (page.previous != kNoPage)
        pages_[page.previous].next = page.next;
    else
        slab.partial = page.next;
    if (page.next != kNoPage) pages_[page.next].previous = page.previous;
    page.next = page.previous = kNoPage;
}

uint32_t Arena::take_pages(uint32_t count, uint32_t keep) {
    if (free_pages_ < count + keep) return kNoPage;
    for (auto run = free_runs_.begin(); run != free_runs_.end(); ++run) {
        if (run->second < count) continue;
        const uint32_t first = run->first;
        const uint32_t rest = run->second - count;
        free_pages_ -= count;
        free_runs_.erase(run);
        if (rest > 0) free_runs_.emplace(first + count, rest);
        return first;
    }
    return kNoPage;
}

void Arena::give_pages(uint32_t first, uint32_t count) {
    free_pages_ += count;
    auto next = free_runs_.lower_bound(first);
    if (next != free_runs_.end() && next->first == first + count) {
        count += next->second;
        next = free_runs_.erase(next);
    }
    if (next != free_runs_.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == first) {
            before->second += count;
            return;
        }
    }
    free_runs_.emplace(first, count);
}

}  // namespace wss::kv::store
