// SPDX-License-Identifier: Apache-2.0
// The tcp fabric's poller and listener.
#pragma once

#include <memory>
#include <vector>

#include "lib/fabric/stream/engine.h"
#include "lib/fabric/stream/poller.h"
#include "lib/fabric/tcp/resolve.h"

namespace wss::fabric::tcp {

constexpr uint32_t kDeadPeerMs = 8000;
constexpr size_t kConnectDataMax = 56;  // the same on every fabric
constexpr size_t kRejectDataMax = 148;

class TcpPoller;

// A socket whose connection is closed for its user, until the peer has read our last words: closing it with
// unread data in it would make TCP throw them away.
class Linger final : public stream::Watched {
  public:
    Linger(TcpPoller& poller, stream::Descriptor socket) : poller_(poller), socket_(std::move(socket)) {}
    void start() noexcept;

  private:
    void on_ready(uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;

    TcpPoller& poller_;
    stream::Descriptor socket_;
    size_t discarded_ = 0;
};

class TcpPoller final : public stream::EventPoller {
  public:
    static Result<std::unique_ptr<TcpPoller>> create(std::shared_ptr<stream::RegionTable> table);

    Result<std::unique_ptr<Listener>> listen(const Address& address, ListenHandler& handler) override;
    Result<std::unique_ptr<Connection>> connect(const Address& address, std::span<const std::byte> data,
                                                const ConnectionOptions& options,
                                                ConnectionHandler& handler) override;

    void linger(stream::Descriptor socket) noexcept;
    void bury(const Linger& linger) noexcept;  // destroys it

  private:
    explicit TcpPoller(std::shared_ptr<stream::RegionTable> table) : table_(std::move(table)) {}

    const std::shared_ptr<stream::RegionTable> table_;
    std::vector<std::unique_ptr<Linger>> lingering_;
};

class TcpListener;

// An accepted socket that has not said its hello yet.
class Arrival final : public stream::Watched {
  public:
    Arrival(TcpListener& listener, stream::Descriptor socket, const SocketAddress& from)
        : listener_(listener), socket_(std::move(socket)), from_(from) {}
    int socket() const { return socket_.get(); }

  private:
    void on_ready(uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;

    TcpListener& listener_;
    stream::Descriptor socket_;
    const SocketAddress from_;
    std::array<std::byte, stream::kHelloBytes> greeting_;
    size_t greeting_have_ = 0;
};

class TcpListener final : public Listener, private stream::Watched {
  public:
    TcpListener(TcpPoller& poller, std::shared_ptr<stream::RegionTable> table, ListenHandler& handler,
                stream::Descriptor socket, const Address& address)
        : poller_(poller),
          table_(std::move(table)),
          handler_(handler),
          socket_(std::move(socket)),
          address_(address) {}
    Status start();
    Address address() const override { return address_; }

  private:
    friend class Arrival;
    void on_ready(uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;
    std::unique_ptr<Arrival> take(const Arrival& arrival) noexcept;

    TcpPoller& poller_;
    const std::shared_ptr<stream::RegionTable> table_;
    ListenHandler& handler_;
    const stream::Descriptor socket_;
    const Address address_;
    std::vector<std::unique_ptr<Arrival>> arrivals_;
};

}  // namespace wss::fabric::tcp
