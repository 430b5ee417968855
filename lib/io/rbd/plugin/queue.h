// SPDX-License-Identifier: Apache-2.0
// RbdQueue: one reactor's queue of an image.
//
// Places of a request during its life:
//   waiting_   submitted; poll() passes requests to librbd while calls are free
//   blocked_   touches a stripe unit with a late call (late_calls.h)
//   calls_     in librbd, as one or more calls
//   doubted_   a change that the next client may not see yet (object_map.cc)
// and then done(). A request is split at the boundaries of stripe units (client.h), and each part is one
// call. A long request goes to librbd in several rounds. In each place a request waits for at most
// osd_timeout, and in librbd also for the delay that limits of the image cause. Then it ends with ETIMEDOUT.
#pragma once

#include "lib/io/rbd/calls.h"
#include "lib/io/rbd/plugin/client.h"

namespace wss::io::rbd {

class RbdQueue final : public Queue {
  public:
    RbdQueue(std::shared_ptr<Client> client, reactor::Reactor& reactor, Calls& calls);
    ~RbdQueue() override;

    void submit(Request& request) noexcept override;
    size_t poll() noexcept override;
    bool arm() noexcept override;
    int fd() const noexcept override { return calls_.completions().event_fd(); }
    size_t in_flight() const noexcept override { return in_flight_; }

  private:
    size_t start_waiting() noexcept;
    size_t end_flushes() noexcept;
    void start(Request& request) noexcept;
    void begin_call(Request& request, uint64_t offset, uint64_t length) noexcept;
    int pass_on(Call& call) noexcept;
    void gather() noexcept;
    size_t reap() noexcept;
    size_t end_late() noexcept;
    size_t confirm() noexcept;
    void wake_up_later() noexcept;
    bool is_late(const Call& call) const noexcept;
    bool is_late(const Request& request) const noexcept;
    void give_up(Call& call) noexcept;
    bool reads_hole(const Call& call) const noexcept;
    void check_hole(const Call& call, int& error) noexcept;
    void complete(Call& call) noexcept;
    void part_over(Request& request, int error, uint64_t good) noexcept;
    void go_on(Request& request) noexcept;
    void end(Request& request, int error) noexcept;
    void note_progress() noexcept;

    const std::shared_ptr<Client> client_;
    reactor::Reactor& reactor_;
    Calls& calls_;  // owned by the client
    List<Request> waiting_, blocked_;
    List<Call> in_librbd_;       // calls with a request, the oldest first
    Call* completed_ = nullptr;  // completed calls, linked by `next`
    List<Request> doubted_;
    size_t waiting_count_ = 0;
    size_t in_flight_ = 0;
    uint64_t late_ended_ = 0;  // LateCalls::ended() when requests were last moved to blocked_ or back
    // Wakes the reactor while there are requests, because Ceph may be silent.
    reactor::Timer tick_;
    Nanoseconds next_tick_{};
};

}  // namespace wss::io::rbd
