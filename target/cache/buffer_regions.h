// SPDX-License-Identifier: Apache-2.0
// BufferRegions: the data buffers of the block service, registered with the fabrics on which cache engines
// join. Engines move data between an arena slot and the buffer that a client's RDMA or the storage uses,
// without a copy.
//
// Those fabrics are opened for the cache alone: no client has a connection on them that could reach this
// memory.
//
// Thread-safety: immutable after make(). Lifetime: the memory and the fabrics outlive it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/fabric/fabric.h"
#include "lib/wire/srp.h"

namespace wss::cache {

// The fabric and the device that a connection to an engine uses.
struct Via {
    size_t net = 0;     // index of the cache's fabric
    size_t device = 0;  // of that fabric
};

class BufferRegions {
  public:
    static Result<std::unique_ptr<BufferRegions>> make(std::span<std::byte> memory,
                                                       const std::vector<fabric::Fabric*>& fabrics) {
        std::unique_ptr<BufferRegions> made(new BufferRegions(memory));
        for (fabric::Fabric* fabric : fabrics) {
            auto region = fabric->register_memory(memory, fabric::Access::kRemoteReadWrite);
            if (!region) return region.status().within("registering I/O buffers for the cache");
            made->regions_.push_back(std::move(*region));
        }
        return made;
    }

    // Address of `at` for a peer that is connected `via`.
    wire::RemoteBuffer remote(const Via& via, const std::byte* at, uint32_t length) const {
        const fabric::Region& region = *regions_[via.net];
        return {region.remote_address() + static_cast<uint64_t>(at - memory_.data()), region.rkey(via.device),
                length};
    }

  private:
    explicit BufferRegions(std::span<std::byte> memory) : memory_(memory) {}
    const std::span<std::byte> memory_;
    std::vector<std::unique_ptr<fabric::Region>> regions_;
};

}  // namespace wss::cache
