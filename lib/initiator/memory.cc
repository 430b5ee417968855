// SPDX-License-Identifier: Apache-2.0
#include "lib/initiator/memory.h"

#include <algorithm>
#include <utility>

#include "lib/initiator/options.h"

namespace wss::initiator {

// --- BouncePool ---

Result<std::unique_ptr<BouncePool>> BouncePool::create(fabric::Fabric& fabric, size_t bytes) {
    size_t rounded = (std::max(bytes, kBounceMin) + kBounceChunk - 1) / kBounceChunk * kBounceChunk;
    auto region = fabric.allocate(rounded, fabric::Access::kRemoteReadWrite);
    if (!region) return region.status().within(fmt::format("{} bytes of bounce buffers", rounded));
    return std::unique_ptr<BouncePool>(new BouncePool(std::move(*region)));
}

BouncePool::BouncePool(std::unique_ptr<fabric::Region> region)
    : region_(std::move(region)), taken_(region_->bytes().size() / kBounceChunk, false) {}

std::optional<Bounce> BouncePool::take(size_t bytes) noexcept {
    uint32_t need = static_cast<uint32_t>((bytes + kBounceChunk - 1) / kBounceChunk);
    uint32_t all = static_cast<uint32_t>(taken_.size());
    uint32_t run = 0;
    for (uint32_t i = hint_; need > 0 && i < all; ++i) {
        run = taken_[i] ? 0 : run + 1;
        if (run < need) continue;
        Bounce found{i + 1 - need, need};
        std::fill_n(taken_.begin() + found.first, need, true);
        if (found.first == hint_) hint_ = i + 1;
        in_use_ += need;
        return found;
    }
    return std::nullopt;
}

void BouncePool::give_back(Bounce bounce) noexcept {
    std::fill_n(taken_.begin() + bounce.first, bounce.chunks, false);
    hint_ = std::min(hint_, bounce.first);
    in_use_ -= bounce.chunks;
}

std::byte* BouncePool::data(Bounce bounce) const noexcept {
    return region_->bytes().data() + size_t{bounce.first} * kBounceChunk;
}

wire::RemoteBuffer BouncePool::remote(Bounce bounce, uint32_t length, size_t device) const noexcept {
    return {region_->remote_address() + uint64_t{bounce.first} * kBounceChunk, region_->rkey(device), length};
}

// --- RegionTable ---

wire::RemoteBuffer RegionTable::Entry::remote(std::span<const std::byte> part, size_t device) const {
    return {region->remote_address() + static_cast<uint64_t>(part.data() - begin()), region->rkey(device),
            static_cast<uint32_t>(part.size())};
}

RegionTable::~RegionTable() {
    WSS_ASSERT(dropped_.empty(), "commands end before the memory that they use is freed");
    while (lru_.pop_front() != nullptr) {
    }
}

// The first entry that ends after `address`.
RegionTable::Table::iterator RegionTable::first_beyond(const std::byte* address) noexcept {
    return std::partition_point(table_.begin(), table_.end(),
                                [address](const auto& entry) { return entry->end() <= address; });
}

RegionTable::Entry* RegionTable::find(std::span<const std::byte> memory) noexcept {
    const std::byte* end = memory.data() + memory.size();
    if (last_ == nullptr || memory.data() < last_->begin() || end > last_->end()) {
        auto at = first_beyond(memory.data());
        if (at == table_.end() || (*at)->begin() > memory.data() || (*at)->end() < end) return nullptr;
        last_ = at->get();
    }
    if (last_->pinned) {
        last_->unlink();
        lru_.push_back(*last_);
    }
    return last_;
}

bool RegionTable::overlaps_own(std::span<const std::byte> memory) noexcept {
    const std::byte* end = memory.data() + memory.size();
    for (auto at = first_beyond(memory.data()); at != table_.end() && (*at)->begin() < end; ++at)
        if (!(*at)->pinned) return true;
    return false;
}

RegionTable::Entry* RegionTable::find_or_pin(std::span<std::byte> memory) noexcept {
    if (Entry* known = find(memory)) return known;
    constexpr uintptr_t kPage = 4096;
    // Registers whole pages, so that later requests for neighbours in these pages find them registered.
    uintptr_t begin = reinterpret_cast<uintptr_t>(memory.data()) & ~(kPage - 1);
    uintptr_t end = (reinterpret_cast<uintptr_t>(memory.data()) + memory.size() + kPage - 1) & ~(kPage - 1);
    std::span<std::byte> pages(reinterpret_cast<std::byte*>(begin), end - begin);
    if (pages.size() > limits_.pin_bytes_max || limits_.pins_max == 0) return nullptr;
    if (overlaps_own(pages)) return nullptr;
    invalidate(pages);
    make_room(pages.size());
    auto region = fabric_.register_memory(pages, fabric::Access::kRemoteReadWrite);
    if (!region) return nullptr;
    auto entry = std::make_unique<Entry>();
    entry->region = std::move(*region);
    entry->pinned = true;
    Entry* result = entry.get();
    pinned_bytes_ += pages.size();
    ++pins_;
    lru_.push_back(*result);
    insert(std::move(entry));
    return result;
}

// Held pins leave the table too; the commands on the wire bound their number.
void RegionTable::make_room(size_t bytes) {
    while (pins_ > 0 && (pins_ >= limits_.pins_max || pinned_bytes_ + bytes > limits_.pin_bytes_max)) {
        Entry* oldest = lru_.front();
        drop(first_beyond(oldest->begin()));
    }
}

void RegionTable::insert(std::unique_ptr<Entry> entry) {
    auto at = first_beyond(entry->begin());
    table_.insert(at, std::move(entry));
}

void RegionTable::drop(Table::iterator at) {
    std::unique_ptr<Entry> entry = std::move(*at);
    table_.erase(at);
    if (last_ == entry.get()) last_ = nullptr;
    entry->unlink();
    entry->dropped = true;
    pinned_bytes_ -= entry->region->bytes().size();
    --pins_;
    if (entry->holds > 0) dropped_.push_back(std::move(entry));
}

void RegionTable::release(Entry& entry) noexcept {
    WSS_ASSERT(entry.holds > 0, "each release() has its hold()");
    if (--entry.holds > 0 || !entry.dropped) return;
    std::erase_if(dropped_, [&entry](const auto& other) { return other.get() == &entry; });
}

Status RegionTable::add(std::unique_ptr<fabric::Region> region, bool copied) {
    if (overlaps_own(region->bytes()))
        return Status(Code::kExists, "the memory, or a part of it, is already registered");
    invalidate(region->bytes());
    auto entry = std::make_unique<Entry>();
    entry->region = std::move(region);
    entry->copied = copied;
    insert(std::move(entry));
    return Status::ok();
}

Result<std::unique_ptr<fabric::Region>> RegionTable::remove(const std::byte* memory) {
    auto at = first_beyond(memory);
    if (at == table_.end() || (*at)->pinned || (*at)->begin() != memory)
        return Status(Code::kNotFound, "no registered memory begins at this address");
    if ((*at)->holds > 0) return Status(Code::kBusy, "a request still uses this memory; wait for it to end");
    if (last_ == at->get()) last_ = nullptr;
    std::unique_ptr<fabric::Region> region = std::move((*at)->region);
    table_.erase(at);
    return region;
}

void RegionTable::invalidate(std::span<const std::byte> memory) {
    const std::byte* end = memory.data() + memory.size();
    for (size_t i = static_cast<size_t>(first_beyond(memory.data()) - table_.begin());
         i < table_.size() && table_[i]->begin() < end;) {
        if (table_[i]->pinned)
            drop(table_.begin() + static_cast<ptrdiff_t>(i));
        else
            ++i;
    }
}

}  // namespace wss::initiator
