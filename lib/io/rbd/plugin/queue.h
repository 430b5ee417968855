// SPDX-License-Identifier: Apache-2.0
// One reactor's way to an image.
//
// Life of a request, by where it is:
//   waiting_   submitted; poll() passes on what librbd has room for
//   blocked_   touches what was given up (late_calls.h)
//   calls_     librbd has it, as a call
//   doubted_   a change that the next client may not see yet (object_map.cc)
// and then done(). A request is cut at the pieces of objects, and each part is a call: several at once, and a
// long range several times. In each of these places it waits for osd_timeout, and for what the limits of the
// image keep back; then it ends with ETIMEDOUT.
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
    int fd() const noexcept override { return calls_.landing().event_fd(); }
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
    bool is_beyond_end(const Call& call) const noexcept;
    void judge_hole(const Call& call, int& error) noexcept;
    void complete(Call& call) noexcept;
    void part_over(Request& request, int error, uint64_t good) noexcept;
    void go_on(Request& request) noexcept;
    void end(Request& request, int error) noexcept;
    void note_progress() noexcept;

    const std::shared_ptr<Client> client_;
    reactor::Reactor& reactor_;
    Calls& calls_;  // the client's
    List<Request> waiting_, blocked_;
    List<Call> in_librbd_;    // those with a request, what librbd has had for longest first
    Call* landed_ = nullptr;  // what has landed, linked by `next`
    List<Request> doubted_;
    size_t waiting_count_ = 0;
    size_t in_flight_ = 0;
    uint64_t late_ended_ = 0;  // LateCalls::ended() when blocked_ was looked at
    // Wakes the reactor while there are requests: Ceph may be silent.
    reactor::Timer tick_;
    Nanoseconds next_tick_{};
};

}  // namespace wss::io::rbd
