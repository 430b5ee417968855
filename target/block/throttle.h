// SPDX-License-Identifier: Apache-2.0
// Throttle: commands of one volume on one reactor that wait for the volume's limits (volume/rate_limit.h).
//
// A command waits before it has taken anything but its slot, which is its initiator's: no buffer, no command
// of the cache, no range. The later steps of a command that has several do not wait: each is charged when it
// begins (charge_step()), and the next commands wait for that. A command waits in its flow (flow.h), so the
// channels of a volume take turns. The reactor has reserved the time of one command at a time with the
// limiter; a timer begins that command.
//
// Rules
//  T1  Within a flow the command that was sent first is served first, also when it was refused meanwhile: its
//      place is kept (throttle_places.h).
//  T2  When those that wait cannot all begin within kThrottleMax, the last command of the longest flow is
//      refused, which may be the one that has just arrived. A command that has waited that long nevertheless
//      is refused too. It ends with TASK SET FULL, or with BUSY where its flow has no other: initiators send
//      it again.
//  T3  A command that was sent first kThrottleTotal ago begins, whatever the limits are. Initiators that send
//      refused commands again turn none into an error, however many they have outstanding.
//
// An aborted command leaves its flow at once. Its reservation is used by the next one, or cancelled.
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
    // comes back by Channel::limit_over(), perhaps before this returns.
    [[nodiscard]] bool admit(LimitFlow& flow, Request& request, uint64_t bytes) noexcept;
    // The next step of a command of several begins, which moves `bytes`; `progress` is still that before it.
    void charge_step(const Request& request, uint64_t bytes) noexcept;
    // A command that waits does so no more. `place_kept`: if it is sent again it has its place.
    void leave(Request& request, bool place_kept) noexcept;
    // Those that wait do so for the new limits, or begin.
    void limits_changed() noexcept;
    // The volume is being removed: ends all that wait.
    void end_all() noexcept;

  private:
    static void fire(void* self) noexcept { static_cast<Throttle*>(self)->serve(); }
    void wait(LimitFlow& flow, Request& request, uint64_t bytes, Nanoseconds now) noexcept;
    void serve() noexcept;
    void look(Nanoseconds now) noexcept;
    bool take(Request& request, Nanoseconds now) noexcept;
    void forget(Request& request, Nanoseconds now) noexcept;
    void refuse(Request& request) noexcept;
    void refuse_excess(Nanoseconds now) noexcept;
    Request& last_of_longest() noexcept;
    bool is_too_long(Nanoseconds now) const noexcept;
    void drop_reservation() noexcept;

    reactor::Reactor& reactor_;
    volume::OpenVolume& volume_;
    FlowQueue queue_;
    uint64_t waiting_ = 0, waiting_bytes_ = 0;  // in the queue
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
