// SPDX-License-Identifier: Apache-2.0
// ForwardedQueue: the queue of a volume whose real storage is on another node, on a reactor other than the
// cache's. It passes each request to the volume's RemoteQueue, which the cache's reactor owns. Such requests
// are rare: flushes, and commands that freeze the volume (target/block/cached.cc).
//
// Thread-safety: belongs to its reactor. Lifetime: the RemoteQueue outlives the requests (gateway.h, GW4).
#pragma once

#include <memory>

#include "lib/io/backend.h"
#include "lib/io/request.h"

namespace wss::cache {

class RemoteQueue;

// Where the RemoteQueue of a backend is. Belongs to the cache's reactor.
struct RemoteQueuePlace {
    RemoteQueue* queue = nullptr;
};

class ForwardedQueue final : public io::Queue {
  public:
    // `home`: the cache's reactor. `reactor`: the reactor of this queue.
    ForwardedQueue(std::shared_ptr<RemoteQueuePlace> place, reactor::Reactor& home, reactor::Reactor& reactor)
        : place_(std::move(place)), home_(home), reactor_(reactor) {}
    ~ForwardedQueue() override;

    void submit(io::Request& request) noexcept override;
    size_t poll() noexcept override;
    bool arm() noexcept override { return finished_.empty(); }
    size_t in_flight() const noexcept override { return in_flight_; }

  private:
    struct Passed;
    static void passed_done(io::Request& io) noexcept;

    const std::shared_ptr<RemoteQueuePlace> place_;
    reactor::Reactor& home_;
    reactor::Reactor& reactor_;
    List<io::Request> finished_;
    size_t in_flight_ = 0;
};

}  // namespace wss::cache
