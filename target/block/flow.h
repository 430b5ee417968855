// SPDX-License-Identifier: Apache-2.0
// Flows: commands that wait for a scarce resource: a buffer (arena.h), a cache command
// (cache::Cache::take_command()), or the limits of their volume (throttle.h).
//
//  FL1  A command that must wait joins its *flow*: the waiting commands of one channel for one volume. The
//       commands of a flow are served in order. A flow that may take nothing now is skipped, and keeps its
//       place.
//  FL2  Returned resources are offered to the flows in turn, first to the flow that has waited longest. A
//       command that arrives while flows wait joins behind them.
//
// Thread-safety: belongs to its reactor. Nothing here allocates.
#pragma once

#include <array>
#include <cstddef>

#include "lib/base/list.h"
#include "target/block/request.h"
#include "target/block/throttle_places.h"

namespace wss::block {

// Commands of one channel for one volume that wait for the same resource.
struct Flow : ListNode<> {
    List<Request> waiting;
};

// Commands that wait for the limits of the volume, in the order in which they were first sent.
struct LimitFlow : Flow {
    uint32_t count = 0;
    ThrottlePlaces places;  // places of refused commands
};

// The flows of one channel for one volume, by resource.
struct WaitingFlows {
    std::array<Flow, kParts> buffers;
    Flow cache;
    LimitFlow limits;
    void unlink() noexcept {
        for (Flow& flow : buffers) flow.unlink();
        cache.unlink();
        limits.unlink();
    }
};

class FlowQueue {
  public:
    bool empty() const noexcept { return flows_.empty(); }
    void wait(Flow& flow, Request& request) noexcept { wait_before(nullptr, flow, request); }
    // Inserts `request` before `next`, which waits in `flow`, or at the end if `next` is nullptr.
    void wait_before(Request* next, Flow& flow, Request& request) noexcept {
        next == nullptr ? flow.waiting.push_back(request) : flow.waiting.insert(*next, request);
        if (!flow.linked()) flows_.push_back(flow);
    }
    // `take(request)` returns a pointer to the resource for the request, or nullptr if none is available now.
    // If it returns a pointer, `offer(request, pointer)` is called. Returns the number of requests served.
    template <typename Take, typename Offer>
    size_t serve(Take&& take, Offer&& offer) noexcept {
        size_t served = 0;
        for (bool progress = true; progress && !flows_.empty();) {
            progress = false;
            // A flow that was served goes to the end. One that was skipped keeps its place.
            List<Flow> passed, lucky;
            while (Flow* flow = flows_.pop_front()) {
                Request* request = flow->waiting.front();
                if (request == nullptr) continue;  // its commands were aborted
                auto* taken = take(*request);
                if (taken == nullptr) {
                    passed.push_back(*flow);
                    continue;
                }
                flow->waiting.pop_front();
                if (!flow->waiting.empty()) lucky.push_back(*flow);
                ++served;
                progress = true;
                offer(*request, taken);
            }
            flows_.splice_back(passed);
            flows_.splice_back(lucky);
        }
        return served;
    }

    template <typename Visit>
    void for_each_flow(Visit&& visit) noexcept {
        flows_.for_each(visit);
    }
    void clear() noexcept {
        while (flows_.pop_front() != nullptr) {
        }
    }

  private:
    List<Flow> flows_;  // in the order in which they are served
};

}  // namespace wss::block
