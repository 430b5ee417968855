// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/registered_arena.h"

#include <utility>

#include "lib/kv/store/slot_index.h"

namespace wss::kv {

Status RegisteredArena::open(std::span<const std::shared_ptr<Lane>> lanes, uint64_t arena_bytes) {
    constexpr std::string_view kWhat = "the arena of the key-value store";
    size_t home = 0;
    for (size_t i = 0; i < lanes.size(); ++i)
        if (lanes[i]->fabric().caps().name == "shm") home = i;
    // The index is cache-line aligned only if the arena's size is.
    arena_bytes_ = arena_bytes / 64 * 64;
    const uint64_t bytes = arena_bytes_ + store::SlotIndex::bytes_for(arena_bytes_);
    auto memory = lanes[home]->fabric().allocate(bytes, fabric::Access::kRemoteRead);
    if (!memory) return memory.status().within(kWhat);
    memory_ = std::move(*memory);
    registered_.resize(lanes.size());
    for (size_t i = 0; i < lanes.size(); ++i) {
        if (i == home) continue;
        auto region = lanes[i]->fabric().register_memory(memory_->bytes(), fabric::Access::kRemoteRead);
        if (!region) return region.status().within(kWhat);
        registered_[i] = std::move(*region);
    }
    return Status::ok();
}

}  // namespace wss::kv
