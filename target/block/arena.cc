// SPDX-License-Identifier: Apache-2.0
#include "target/block/arena.h"

#include <algorithm>

#include "target/cache/command_share.h"

namespace wss::block {

// A1: each volume that never returns a block halves the free memory. Two fractions of the memory are
// reserved. A volume or an initiator gets a block of the last eighth only if it holds none. An initiator gets
// a block of a further sixteenth only if it holds no block of the volume.
static constexpr size_t kVolumeReserve = 8, kNexusReserve = 16;

static size_t reserved(const BufferPool& pool) {
    return pool.size() / kVolumeReserve + pool.size() / kNexusReserve;
}

Result<std::unique_ptr<Arena>> Arena::create(fabric::Fabric& fabric, size_t bytes) {
    const size_t small = std::max<size_t>(bytes / kSmallPart, kBufferMax);
    const size_t large = bytes > small + 2 * kBufferMax ? bytes - small : 2 * kBufferMax;
    std::unique_ptr<Arena> arena(new Arena);
    for (size_t i = 0; i < kParts; ++i) {
        const auto part = static_cast<Part>(i);
        auto pool = BufferPool::create(fabric, part == Part::kSmall   ? small
                                               : part == Part::kLarge ? large
                                                                      : kAdminArena);
        if (!pool) return pool.status();
        arena->pools_[i] = std::move(*pool);
        arena->owners_[i].resize(arena->pools_[i]->size() / kPage);
    }
    return arena;
}

Arena::Owner& Arena::owner_of(Part part, const std::byte* block) noexcept {
    const auto offset = static_cast<size_t>(block - pool(part).memory().data());
    return owners_[static_cast<size_t>(part)][offset / kPage];
}

// A1.
bool Arena::may_hold(Part part, size_t bytes, const Share& share) const noexcept {
    const size_t held = share.held(part);
    return held == 0 || held + 2 * bytes + reserved(pool(part)) <= pool(part).free_bytes();
}

// A2: whether the initiator requests its first block on a volume that has reached its limit.
bool Arena::is_first(Part part, size_t bytes, const Account& account) const noexcept {
    return account.nexus.held(part) == 0 &&
           bytes + pool(part).size() / kVolumeReserve <= pool(part).free_bytes();
}

// A2: whether the initiator stays within its limit on the volume.
bool Arena::leaves_enough(Part part, size_t bytes, const Account& account) const noexcept {
    if (account.nexus.held(part) == 0) return true;
    // A block that the volume takes makes its share larger and the free part smaller, hence the factor of
    // two.
    const size_t used = account.volume.held(part) + reserved(pool(part));
    const size_t free = pool(part).free_bytes();
    const size_t room = free > used ? (free - used) / 2 : 0;
    return room > bytes && account.nexus.held(part) + bytes <= cache::kNexusPart * (room - bytes);
}

std::byte* Arena::try_take(Part part, size_t bytes, const Account& account) noexcept {
    const size_t block_bytes = BufferPool::block_bytes(bytes);
    const bool of_volume =
        may_hold(part, block_bytes, account.volume) || is_first(part, block_bytes, account);
    if (!of_volume || !may_hold(part, block_bytes, account.initiator) ||
        !leaves_enough(part, block_bytes, account))
        return nullptr;
    std::byte* block = pool(part).take(bytes);
    if (block == nullptr) return nullptr;
    owner_of(part, block) = {&account.volume, &account.initiator, &account.nexus};
    for (Share* share : {&account.volume, &account.initiator, &account.nexus}) {
        share->held_[static_cast<size_t>(part)] += block_bytes;
        ++share->users_;
    }
    return block;
}

std::byte* Arena::take(Part part, size_t bytes, const Account& account) noexcept {
    return waiting_[static_cast<size_t>(part)].empty() ? try_take(part, bytes, account) : nullptr;
}

void Arena::give(Part part, std::byte* block, size_t bytes) noexcept {
    const Owner owner = std::exchange(owner_of(part, block), {});
    for (Share* share : {owner.volume, owner.initiator, owner.nexus}) {
        share->held_[static_cast<size_t>(part)] -= BufferPool::block_bytes(bytes);
        share->leave();
    }
    pool(part).give(block, bytes);
}

}  // namespace wss::block
