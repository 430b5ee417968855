// SPDX-License-Identifier: Apache-2.0
// RbdBackend: an image of a Ceph cluster as real storage.
//
// Stability: Ceph acknowledges a write when every replica has it on its medium, and librbd's cache is off. So
// no data is volatile, FUA costs nothing, and a flush completes at once.
//
// Copies: librbd copies written data before it sends the data, so that the buffer of the request is free when
// the request is done. It copies read data out of its receive buffer. Read data is copied a second time,
// because the request of a read may time out while librbd has the call (calls.h).
#pragma once

#include <atomic>
#include <functional>

#include "lib/io/rbd/plugin/client.h"

namespace wss::io::rbd {

class RbdBackend final : public Backend {
  public:
    static Result<std::unique_ptr<Backend>> open(const std::string& rest, const OpenOptions& options);
    static Status check(const std::string& rest, const OpenOptions& options);
    ~RbdBackend() override;

    Limits limits() const noexcept override;
    Result<std::unique_ptr<Queue>> open_queue(reactor::Reactor& reactor) override;
    Status resize(uint64_t bytes) override;
    std::optional<Status> late_resize() override;
    Status may_resize() override;
    void watch_size(SizeChanged changed) override { client_->watch_size(std::move(changed)); }
    bool hides_growth() const noexcept override { return client_->hides_growth(); }
    std::string trouble() const override { return client_->trouble(); }
    bool lost() const noexcept override { return client_->lost(); }
    bool suspended() const noexcept override { return client_->suspended(); }
    std::string ownership() const override { return client_->ownership(); }
    bool is_shared() const override { return client_->options().is_head(); }
    Succession succession() const noexcept override { return client_->succession(); }
    void end_waits() noexcept override { ends_.store(true); }
    void begin_close() noexcept override;
    std::string describe() const override { return "rbd:" + client_->options().name(); }

  private:
    explicit RbdBackend(std::shared_ptr<Client> client) : client_(std::move(client)) {}
    Status fit(const OpenOptions& options, Deadline limit);
    Status grow(uint64_t bytes, const OpenOptions& options, Deadline limit);
    Status check_new_size(uint64_t bytes) const;
    // Makes a call that changes the image. `removed`: the error if end_waits() ends the wait.
    Status bounded(BoundedCall& begun, std::function<Status()> call, std::string_view removed) const;

    const std::shared_ptr<Client> client_;
    std::atomic<bool> ends_{false};
    BoundedCall resize_;  // the last resize()
    std::optional<Client::Closing> closing_;
};

}  // namespace wss::io::rbd
