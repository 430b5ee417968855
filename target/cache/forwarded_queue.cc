// SPDX-License-Identifier: Apache-2.0
#include "target/cache/forwarded_queue.h"

#include <cerrno>

#include "lib/io/request.h"
#include "target/cache/remote.h"

namespace wss::cache {

// What the RemoteQueue gets in place of a request of another reactor.
struct ForwardedQueue::Passed {
    ForwardedQueue* owner = nullptr;
    io::Request* request = nullptr;
    io::Request io;
};

ForwardedQueue::~ForwardedQueue() {
    WSS_ASSERT(in_flight_ == 0, "a queue is destroyed only when its requests are done");
}

void ForwardedQueue::submit(io::Request& request) noexcept {
    ++in_flight_;
    auto* passed = new Passed{.owner = this, .request = &request, .io = {}};
    passed->io.op = request.op;
    passed->io.fua = request.fua;
    passed->io.offset = request.offset;
    passed->io.length = request.length;
    passed->io.data = request.data;
    passed->io.done = passed_done;
    passed->io.context = passed;
    home_.post([place = place_, passed] {
        if (place->queue != nullptr) return place->queue->submit(passed->io);
        passed->io.error = ENXIO;
        passed_done(passed->io);
    });
}

void ForwardedQueue::passed_done(io::Request& io) noexcept {
    auto* const passed = static_cast<Passed*>(io.context);
    passed->owner->reactor_.post([passed] {
        passed->request->error = passed->io.error;
        passed->request->done_bytes = passed->io.done_bytes;
        passed->owner->finished_.push_back(*passed->request);
        delete passed;
    });
}

size_t ForwardedQueue::poll() noexcept {
    return io::finish_all(finished_, in_flight_);
}

}  // namespace wss::cache
