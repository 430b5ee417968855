// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/stream/region_table.h"

#include <cstdint>

namespace wss::fabric::stream {

constexpr size_t kTombstonesMax = 4096;  // bounds memory: a key is reusable after that many revocations

uint32_t RegionTable::draw_key() {
    for (;;) {
        auto key = static_cast<uint32_t>(random_.next() >> 32);
        if (key != 0 && !entries_.contains(key)) return key;
    }
}

uint32_t RegionTable::add(std::span<std::byte> bytes, Access access, void* owner) {
    std::unique_lock lock(lock_);
    uint32_t key = draw_key();
    entries_.emplace(key, Entry{.bytes = bytes, .access = access, .revoked = false, .owner = owner});
    return key;
}

void RegionTable::remove(uint32_t key) noexcept {
    std::unique_lock lock(lock_);
    auto found = entries_.find(key);
    if (found == entries_.end() || found->second.revoked) return;
    found->second = Entry{.bytes = {}, .access = Access::kLocal, .revoked = true, .owner = nullptr};
    ++revocations_;
    tombstones_.push_back(key);
    if (tombstones_.size() <= kTombstonesMax) return;
    entries_.erase(tombstones_.front());
    tombstones_.pop_front();
}

const RegionTable::Entry* RegionTable::find(uint32_t key) const noexcept {
    auto found = entries_.find(key);
    return found == entries_.end() || found->second.revoked ? nullptr : &found->second;
}

// No sum here can overflow, whatever the peer sends.
static bool contains(std::span<std::byte> bytes, uint64_t address, uint64_t length) {
    uint64_t base = reinterpret_cast<uintptr_t>(bytes.data());
    return address >= base && length <= bytes.size() && address - base <= bytes.size() - length;
}

std::byte* RegionTable::remote(RemoteAddress where, uint32_t length, Access need) const noexcept {
    const Entry* entry = find(where.rkey);
    if (entry == nullptr || !allows(entry->access, need)) return nullptr;
    if (!contains(entry->bytes, where.address, length)) return nullptr;
    return entry->bytes.data() + (where.address - reinterpret_cast<uintptr_t>(entry->bytes.data()));
}

bool RegionTable::is_local(const Segment& segment, Memo& memo) const noexcept {
    if (segment.lkey == 0) return false;
    if (memo.key != segment.lkey || memo.revocations != revocations_) {
        const Entry* entry = find(segment.lkey);
        if (entry == nullptr) return false;
        memo = {.key = segment.lkey, .revocations = revocations_, .bytes = entry->bytes};
    }
    return contains(memo.bytes, reinterpret_cast<uintptr_t>(segment.address), segment.length);
}

}  // namespace wss::fabric::stream
