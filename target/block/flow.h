// SPDX-License-Identifier: Apache-2.0
// Flows: commands that wait for something of which there is not enough: a buffer (arena.h), a command of the
// cache (se::Cache::take_work()), or the limits of their volume (throttle.h).
//
//  A2  A command that must wait stands in its *flow*: the commands of one channel for one volume. Within a
//      flow the first comes first; a flow that may take nothing is passed by the others.
//  A3  What comes back is offered to the flows in turn, first to the one that waits longest; a command that
//      arrives while flows wait stands behind them.
//
// Thread-safety: belongs to its reactor. Nothing here allocates.
#pragma once

#include <array>
#include <cstddef>

#include "lib/base/list.h"
#include "target/block/request.h"

namespace wss::block {

// Commands of one channel for one volume that wait for the same.
struct Flow : ListNode<> {
    List<Request> waiting;
};

// … by what they wait for.
struct WaitingFlows {
    std::array<Flow, kParts> buffers;
    Flow cache, limits;
    void unlink() noexcept {
        for (Flow& flow : buffers) flow.unlink();
        cache.unlink();
        limits.unlink();
    }
};

class FlowQueue {
  public:
    bool empty() const noexcept { return flows_.empty(); }
    void wait(Flow& flow, Request& request) noexcept {
        flow.waiting.push_back(request);
        if (!flow.linked()) flows_.push_back(flow);
    }
    // `take(request)` gives a pointer to what the request waits for, or nullptr: not now; `offer(request,
    // pointer)` follows. Returns how many got something.
    template <typename Take, typename Offer>
    size_t serve(Take&& take, Offer&& offer) noexcept {
        size_t served = 0;
        for (bool progress = true; progress && !flows_.empty();) {
            progress = false;
            // Who gets something goes to the end; who stays keeps its place.
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

    // `end(request)` for each request that waits and `is_due(request)`, of each flow those in front.
    template <typename IsDue, typename End>
    void end_if(IsDue&& is_due, End&& end) noexcept {
        flows_.for_each([&](Flow& flow) {
            while (Request* request = flow.waiting.front()) {
                if (!is_due(*request)) return;
                flow.waiting.pop_front();
                end(*request);
            }
        });
    }
    // Nobody waits any more.
    void clear() noexcept {
        while (flows_.pop_front() != nullptr) {
        }
    }

  private:
    List<Flow> flows_;  // in the order in which they are served
};

}  // namespace wss::block
