// SPDX-License-Identifier: Apache-2.0
// Requests to the driver to map volumes. The driver tries each once before the write to sysfs returns, for
// 10 s if the target does not answer. So each target has a thread: one that does not answer delays its own
// volumes only.
#pragma once

#include <memory>
#include <optional>

#include "tools/wssctl/mapping.h"

namespace wss::wssctl {

struct MapRequest {
    Mapping mapping;
    std::string dead_disk;  // removed first; empty: none
};

// Thread-safety: one owner.
class MapRequests {
  public:
    // Begins those of each target in their order.
    MapRequests(const Context& context, std::vector<MapRequest> requests);
    // No further request begins. Those in progress end with the process.
    ~MapRequests();
    MapRequests(const MapRequests&) = delete;
    MapRequests& operator=(const MapRequests&) = delete;

    // Nothing until the driver has answered request `index`. Ok: the disk exists, or the driver continues to
    // try.
    std::optional<Status> answer(size_t index) const;

  private:
    struct Shared;
    std::shared_ptr<Shared> shared_;
};

}  // namespace wss::wssctl
