// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/registered_arena.h"

#include <utility>

namespace wss::kv {

Status RegisteredArena::open(std::span<const std::shared_ptr<Lane>> lanes, uint64_t bytes) {
    constexpr std::string_view kWhat = "the arena of the key-value store";
    size_t home = 0;
    for (size_t i = 0; i < lanes.size(); ++i)
        if (lanes[i]->fabric().caps().name == "shm") home = i;
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
