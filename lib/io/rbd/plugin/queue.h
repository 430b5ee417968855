// SPDX-License-Identifier: Apache-2.0
// One reactor's way to an image.
//
// Life of a request, by where it is:
//   waiting_   submitted; poll() passes on what fits in kDepth
//   in_ceph_   librbd has it
//   landing_   librbd's callback, on a thread of its own, has put it there; poll() takes all of them
//   doubted_   a change that the next client may not see yet
// and then done(). A request may pass in_ceph_ several times: a long range is zeroed in parts.
//
// The landing is the only thing that threads share: a stack linked through the requests, pushed by
// compare-and-swap and taken whole, and one eventfd that is written only when the reactor is about to sleep.
#pragma once

#include <atomic>

#include "lib/io/rbd/plugin/client.h"

namespace wss::io::rbd {

class Landing {
  public:
    explicit Landing(int event_fd) : event_fd_(event_fd) {}
    ~Landing();
    Landing(const Landing&) = delete;
    Landing& operator=(const Landing&) = delete;

    // librbd's threads. The last thing that a callback does with the request.
    void push(Request& request) noexcept;
    // The reactor's thread.
    Request* take_all() noexcept;  // in the order of push(), linked by next_of()
    bool arm() noexcept;           // false: there is something already
    static Request*& next_of(Request& request) noexcept;

  private:
    const int event_fd_;
    std::atomic<Request*> top_{nullptr};
    std::atomic<bool> armed_{false};
    std::atomic<uint32_t> inside_{0};  // callbacks that may still touch this
    // The reactor's own.
    bool reactor_armed_ = false;  // what `armed_` is unless a callback has taken it
    int64_t due_ = 0;             // signals that were not drained; -1: the one of a callback since arm() was
};

class RbdQueue final : public Queue {
  public:
    RbdQueue(std::shared_ptr<Client> client, reactor::Reactor& reactor, int event_fd);
    ~RbdQueue() override;

    void submit(Request& request) noexcept override;
    size_t poll() noexcept override;
    bool arm() noexcept override;
    int fd() const noexcept override { return event_fd_; }
    size_t in_flight() const noexcept override { return in_flight_; }

  private:
    size_t start_waiting() noexcept;
    void start(Request& request) noexcept;
    int pass_on(Request& request) noexcept;
    size_t reap() noexcept;
    size_t confirm() noexcept;
    bool may_be_deleted(const Request& request) const noexcept;
    void complete(Request& request) noexcept;
    void go_on(Request& request) noexcept;
    void end(Request& request, int error) noexcept;
    void note_progress() noexcept;

    const std::shared_ptr<Client> client_;
    reactor::Reactor& reactor_;
    const int event_fd_;
    Progress& progress_;  // the client's
    List<Request> waiting_;
    List<Request> in_ceph_;  // that librbd has had for longest first
    List<Request> doubted_;  // changes that librbd has done, until the doubt is over (object_map.cc)
    size_t waiting_count_ = 0;
    size_t in_ceph_count_ = 0;
    size_t in_flight_ = 0;
    Landing landing_;
};

}  // namespace wss::io::rbd
