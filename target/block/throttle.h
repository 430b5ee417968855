// SPDX-License-Identifier: Apache-2.0
// Throttle: commands of one volume on one reactor that wait for the volume's limits (volume/rate_limit.h).
//
// A command waits before it has taken anything but its slot, which is its initiator's: no buffer, no command
// of the cache, no range. A step of WRITE SAME keeps what its command holds. It waits in its flow (flow.h),
// so the channels of a volume take turns. The reactor has reserved the time of one command at a time with the
// limiter; a timer begins that command. A command that has waited kThrottleMax ends with BUSY: its initiator
// sends it again instead of giving it up.
//
// An aborted command leaves its flow at once. What was reserved for it is used by the next one, or cancelled.
//
// Thread-safety: belongs to its reactor. Allocates nothing.
#pragma once

#include <memory>

#include "lib/reactor/reactor.h"
#include "target/block/flow.h"
#include "target/volume/volume.h"

namespace wss::block {

class Throttle {
  public:
    Throttle(reactor::Reactor& reactor, volume::OpenVolume& volume)
        : reactor_(reactor), volume_(volume), timer_(&Throttle::fire, this) {}
    ~Throttle();
    Throttle(const Throttle&) = delete;
    Throttle& operator=(const Throttle&) = delete;

    // For a command that moves `bytes`. True: it may begin, and is charged. False: it waits in `flow` and
    // comes back by Channel::limit_over().
    [[nodiscard]] bool admit(Flow& flow, Request& request, uint64_t bytes) noexcept;
    // Those that wait do so for the new limits, or begin.
    void limits_changed() noexcept;
    // The volume is being removed: ends all that wait.
    void end_all() noexcept;

  private:
    static void fire(void* self) noexcept { static_cast<Throttle*>(self)->serve(); }
    void serve() noexcept;
    void end_overdue(Nanoseconds now) noexcept;
    bool take(Request& request, Nanoseconds now) noexcept;
    void drop_reservation() noexcept;

    reactor::Reactor& reactor_;
    volume::OpenVolume& volume_;
    FlowQueue queue_;
    reactor::Timer timer_;
    Nanoseconds next_look_{};  // for those that have waited too long
    // The time of the next command; `of` is the limiter that it was reserved with, nullptr: none is reserved.
    struct Reservation {
        std::shared_ptr<volume::RateLimiter> of;
        Nanoseconds start{};
        uint64_t bytes = 0;
    } reserved_;
};

}  // namespace wss::block
