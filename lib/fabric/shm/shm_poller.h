// SPDX-License-Identifier: Apache-2.0
// The shm fabric's poller and listener.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/fabric/shm/domain.h"
#include "lib/fabric/shm/shm_connection.h"
#include "lib/fabric/stream/poller.h"

namespace wss::fabric::shm {

constexpr size_t kConnectDataMax = 56;  // the same on every fabric
constexpr size_t kRejectDataMax = 148;

class ShmPoller final : public stream::EventPoller {
  public:
    static Result<std::unique_ptr<ShmPoller>> create(std::shared_ptr<Domain> domain);

    Result<std::unique_ptr<Listener>> listen(const Address& address, ListenHandler& handler) override;
    Result<std::unique_ptr<Connection>> connect(const Address& address, std::span<const std::byte> data,
                                                const ConnectionOptions& options,
                                                ConnectionHandler& handler) override;
    bool arm() noexcept override;

    // Connections whose rings are to be looked at.
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

class ShmListener;

// A connected socket that has not said its hello yet.
class Arrival final : public stream::Watched {
  public:
    Arrival(ShmListener& listener, stream::Descriptor socket, const Peer& peer)
        : listener_(listener), socket_(std::move(socket)), peer_(peer) {}
    int socket() const { return socket_.get(); }

  private:
    void on_ready(uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;
    Result<Visitor> check(Greeting& greeting) noexcept;

    ShmListener& listener_;
    stream::Descriptor socket_;
    const Peer peer_;
};

class ShmListener final : public Listener, private stream::Watched {
  public:
    ShmListener(ShmPoller& poller, std::shared_ptr<Domain> domain, ListenHandler& handler,
                stream::Descriptor socket, const Address& address);
    ~ShmListener() override;
    Status start();
    Address address() const override { return address_; }

  private:
    friend class Arrival;
    void on_ready(uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;
    std::unique_ptr<Arrival> take(const Arrival& arrival) noexcept;

    ShmPoller& poller_;
    const std::shared_ptr<Domain> domain_;
    ListenHandler& handler_;
    const stream::Descriptor socket_;
    const Address address_;
    uint64_t inode_ = 0;  // of the socket file: another's is not ours to remove
    std::vector<std::unique_ptr<Arrival>> arrivals_;
};

}  // namespace wss::fabric::shm
