// SPDX-License-Identifier: Apache-2.0
// The tcp fabric's poller and listener.
#pragma once

#include <memory>
#include <vector>

#include "lib/base/list.h"
#include "lib/fabric/resolve.h"
#include "lib/fabric/stream/engine.h"
#include "lib/fabric/stream/listener.h"
#include "lib/fabric/stream/poller.h"

namespace wss::fabric::tcp {

constexpr uint32_t kDeadPeerMs = 8000;

class TcpPoller;
struct UnreadTag;

// A socket whose connection is closed for its user, until the peer has read our last words: closing it with
// unread data in it would make TCP throw them away.
class Linger final : public stream::Watched, public ListNode<UnreadTag> {
  public:
    Linger(TcpPoller& poller, Descriptor socket) : poller_(poller), socket_(std::move(socket)) {}
    ~Linger() override { unlink(); }
    void start() noexcept;
    // Discards no more than `bytes_max` of what has arrived and returns how many bytes. May destroy it.
    size_t discard(size_t bytes_max) noexcept;

  private:
    void on_ready(uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;

    TcpPoller& poller_;
    Descriptor socket_;
    size_t discarded_ = 0;
};

class TcpPoller final : public stream::EventPoller {
  public:
    static Result<std::unique_ptr<TcpPoller>> create(std::shared_ptr<stream::RegionTable> table);

    size_t poll() noexcept override;
    bool arm() noexcept override { return unread_.empty() && EventPoller::arm(); }

    Result<std::unique_ptr<Listener>> listen(const Address& address, ListenHandler& handler) override;
    Result<std::unique_ptr<Connection>> connect(const Address& address, std::span<const std::byte> data,
                                                const ConnectionOptions& options,
                                                ConnectionHandler& handler) override;

    void linger(Descriptor socket) noexcept;
    void bury(const Linger& linger) noexcept;  // destroys it
    void discard_later(Linger& linger) noexcept;

  private:
    explicit TcpPoller(std::shared_ptr<stream::RegionTable> table) : table_(std::move(table)) {}

    const std::shared_ptr<stream::RegionTable> table_;
    List<Linger, UnreadTag> unread_;                  // those that may have something to discard, in turn
    std::vector<std::unique_ptr<Linger>> lingering_;  // oldest first
};

class TcpListener final : public stream::StreamListener {
  public:
    TcpListener(TcpPoller& poller, std::shared_ptr<stream::RegionTable> table, ListenHandler& handler,
                Descriptor socket, const Address& address)
        : StreamListener(poller, handler, socket.get(), address),
          table_(std::move(table)),
          socket_(std::move(socket)) {}

  private:
    std::unique_ptr<stream::Arrival> welcome(Descriptor socket) override;

    const std::shared_ptr<stream::RegionTable> table_;
    const Descriptor socket_;
};

}  // namespace wss::fabric::tcp
