// SPDX-License-Identifier: Apache-2.0
// Nets: the fabrics on which engines join, each with its poller and the scheme of its addresses.
//
// It owns only the list. Fabrics and pollers outlive it.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lib/fabric/fabric.h"
#include "target/cache/buffer_regions.h"

namespace wss::cache {

struct Net {
    fabric::Fabric* fabric = nullptr;
    fabric::Poller* poller = nullptr;
    fabric::Scheme scheme = fabric::Scheme::kTcp;  // scheme of the address at which engines join, once it is
                                                   // known
};

class Nets {
  public:
    explicit Nets(std::vector<Net> nets) : nets_(std::move(nets)) {}

    Net& operator[](size_t net) noexcept { return nets_[net]; }
    std::span<const Net> all() const noexcept { return nets_; }
    // Registers memory, to and from which engines move data, with all fabrics.
    Result<std::unique_ptr<BufferRegions>> register_buffers(std::span<std::byte> memory) const {
        std::vector<fabric::Fabric*> fabrics;
        for (const Net& net : nets_) fabrics.push_back(net.fabric);
        return BufferRegions::make(memory, fabrics);
    }

  private:
    std::vector<Net> nets_;
};

}  // namespace wss::cache
