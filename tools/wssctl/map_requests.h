// SPDX-License-Identifier: Apache-2.0
// MapRequests: requests to the driver to map volumes. The driver tries each request once before the write to
// sysfs returns. That takes 10 s if the target does not answer. So up to 64 targets are handled in parallel.
// A target that does not answer then delays only its own volumes, unless there are more targets.
#pragma once

#include <memory>
#include <optional>

#include "tools/wssctl/mapping.h"

namespace wss::wssctl {

struct MapRequest {
    Mapping mapping;
    std::string dead_disk;  // a failed disk that must be removed first; empty: none
};

// Thread-safety: has one owner.
class MapRequests {
  public:
    // Starts the requests. The requests of one target run in order.
    MapRequests(const Context& context, std::vector<MapRequest> requests);
    // Starts no further requests. Those in progress may run until the end of the process.
    ~MapRequests();
    MapRequests(const MapRequests&) = delete;
    MapRequests& operator=(const MapRequests&) = delete;

    // The result of request `index`, or nullopt until the driver has answered. OK means that the disk exists,
    // or that the driver keeps trying.
    std::optional<Status> answer(size_t index) const;

  private:
    struct Shared;
    std::shared_ptr<Shared> shared_;
};

}  // namespace wss::wssctl
