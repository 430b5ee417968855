// SPDX-License-Identifier: Apache-2.0
// Throttle: commands of one volume on one reactor that wait for the volume's limits (volume/rate_limit.h).
//
// A command waits before it gets a buffer, a cache command or a range lock. It holds only its slot, which
// belongs to its initiator. The later steps of a command with several steps do not wait. Each is charged when
// it begins (charge_step()), and delays the next commands. A command waits in its flow (flow.h), so the
// channels of a volume take turns. The reactor reserves the time of the next command from the limiter, one
// command at a time. A timer starts that command.
//
// Rules
//  T1  The commands of a flow are served in the order in which they were first sent. A refused command that
//      the initiator repeats keeps its place (throttle_places.h).
//  T2  If the waiting commands cannot all begin within kThrottleMax, the last command of the longest flow is
//      refused. It may be the one that has just arrived. A command that has waited kThrottleMax is refused
//      too. A refused command ends with TASK SET FULL, or with BUSY if its flow has no other command.
//      Initiators repeat it.
//  T3  A command that was first sent kThrottleTotal ago begins regardless of the limits. So an initiator that
//      repeats refused commands gets no errors, however many commands it has outstanding.
//
// An aborted command leaves its flow at once. The next command uses its reservation. If there is none, the
// reservation is cancelled.
//
// Thread-safety: belongs to its reactor. Allocates nothing but the places of refused commands
// (throttle_places.h).
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

    // Checks a command that moves `bytes`. If it returns true, the command may begin and is charged.
    // Otherwise the command waits in `flow` and is returned through Channel::limit_over(), perhaps before
    // this function returns.
    [[nodiscard]] bool admit(LimitFlow& flow, Request& request, uint64_t bytes) noexcept;
    // Charges the next step of a command of several steps, which moves `bytes`. Call it before `progress`
    // counts the step.
    void charge_step(const Request& request, uint64_t bytes) noexcept;
    // Removes a waiting command. If `place_kept` is true, the command keeps its place in case the initiator
    // repeats it.
    void leave(Request& request, bool place_kept) noexcept;
    // Applies the new limits to waiting commands.
    void limits_changed() noexcept;
    // The volume is being removed: ends all waiting commands with BUSY.
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
    Nanoseconds next_look_{};  // next check for commands that have waited too long
    // The reserved time of the next command, and its limiter `of`; nullptr: nothing is reserved.
    struct Reservation {
        std::shared_ptr<volume::RateLimiter> of;
        Nanoseconds start{};
        uint64_t bytes = 0;
    } reserved_;
};

}  // namespace wss::block
