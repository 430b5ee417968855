// SPDX-License-Identifier: Apache-2.0
// The shm fabric's poller and listener.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/fabric/shm/domain.h"
#include "lib/fabric/shm/shm_connection.h"
#include "lib/fabric/stream/listener.h"

namespace wss::fabric::shm {

class ShmPoller final : public stream::EventPoller {
  public:
    static Result<std::unique_ptr<ShmPoller>> create(std::shared_ptr<Domain> domain);

    Result<std::unique_ptr<Listener>> listen(const Address& address, ListenHandler& handler) override;
    Result<std::unique_ptr<Connection>> connect(const Address& address, std::span<const std::byte> data,
                                                const ConnectionOptions& options,
                                                ConnectionHandler& handler) override;
    bool arm() noexcept override;

    // Connections whose rings are examined each turn.
    void add(ShmConnection& connection) { streaming_.push_back(&connection); }
    void remove(const ShmConnection& connection) noexcept { std::erase(streaming_, &connection); }

  private:
    explicit ShmPoller(std::shared_ptr<Domain> domain) : domain_(std::move(domain)) {}
    void look_around() noexcept override;
    bool kernel_may_have_news() noexcept override;

    const std::shared_ptr<Domain> domain_;
    std::vector<ShmConnection*> streaming_;
    uint32_t turns_ = 0;
    bool slept_ = false;
};

class ShmListener final : public stream::StreamListener {
  public:
    ShmListener(ShmPoller& poller, std::shared_ptr<Domain> domain, ListenHandler& handler,
                UnixListener socket, const Address& address);

  private:
    std::unique_ptr<stream::Arrival> welcome(Descriptor socket) override;

    const std::shared_ptr<Domain> domain_;
    const UnixListener socket_;
};

}  // namespace wss::fabric::shm
