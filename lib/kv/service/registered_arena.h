// SPDX-License-Identifier: Apache-2.0
// RegisteredArena: the memory of a partition's store, registered with every fabric that clients come over.
//
// Thread-safety: none. Ownership: owns memory and registrations; dies after the store.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/kv/transport/channel.h"

namespace wss::kv {

class RegisteredArena {
  public:
    // Comes from the first lane whose fabric is called "shm", else from the first, and is registered with the
    // others.
    Status open(std::span<const std::shared_ptr<Lane>> lanes, uint64_t bytes);
    std::span<std::byte> bytes() const { return memory_->bytes(); }
    const fabric::Region& of_lane(size_t index) const {
        return registered_[index] ? *registered_[index] : *memory_;
    }

  private:
    std::unique_ptr<fabric::Region> memory_;
    std::vector<std::unique_ptr<fabric::Region>> registered_;  // by lane; nullptr: the memory's own
};

}  // namespace wss::kv
