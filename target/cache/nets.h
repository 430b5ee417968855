// SPDX-License-Identifier: Apache-2.0
// Nets: the fabrics by which engines join, each with its poller and the scheme of the addresses there.
//
// It owns nothing but the list; fabrics and pollers outlive it.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lib/fabric/fabric.h"
#include "target/cache/buffer_regions.h"

namespace wss::se {

struct Net {
    fabric::Fabric* fabric = nullptr;
    fabric::Poller* poller = nullptr;
    fabric::Scheme scheme = fabric::Scheme::kTcp;  // of where engines join, once that is known
};

class Nets {
  public:
    explicit Nets(std::vector<Net> nets) : nets_(std::move(nets)) {}

    Net& operator[](size_t net) noexcept { return nets_[net]; }
    std::span<const Net> all() const noexcept { return nets_; }
    // Engines move data to and from this memory, by any of the fabrics.
    Result<std::unique_ptr<BufferRegions>> register_buffers(std::span<std::byte> memory) const {
        std::vector<fabric::Fabric*> fabrics;
        for (const Net& net : nets_) fabrics.push_back(net.fabric);
        return BufferRegions::make(memory, fabrics);
    }

  private:
    std::vector<Net> nets_;
};

}  // namespace wss::se
