// SPDX-License-Identifier: Apache-2.0
// RegisteredArena: the memory of a partition's store, the arena followed by the index, registered with every
// fabric that clients use.
//
// Thread-safety: none. Ownership: owns memory and registrations; destroyed after the store.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/kv/transport/channel.h"

namespace wss::kv {

class RegisteredArena {
  public:
    // Allocates from the fabric named "shm" (the last one if there are several), otherwise from the first
    // lane's, and registers with the others.
    Status open(std::span<const std::shared_ptr<Lane>> lanes, uint64_t arena_bytes);
    std::span<std::byte> arena() const { return memory_->bytes().first(arena_bytes_); }
    std::span<std::byte> index() const { return memory_->bytes().subspan(arena_bytes_); }
    const fabric::Region& of_lane(size_t index) const {
        return registered_[index] ? *registered_[index] : *memory_;
    }

  private:
    uint64_t arena_bytes_ = 0;
    std::unique_ptr<fabric::Region> memory_;
    std::vector<std::unique_ptr<fabric::Region>> registered_;  // one per lane; nullptr for that of memory_
};

}  // namespace wss::kv
