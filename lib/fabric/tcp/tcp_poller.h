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
#include "lib/fabric/tls/session.h"

namespace wss::fabric::tcp {

constexpr uint32_t kDeadPeerMs = 8000;

class TcpPoller;
struct UnreadTag;
struct HandshakeTag;

// The socket of a closed connection. It is kept until the peer has read our last data, because closing a
// socket with unread received data would make TCP discard the data to be sent.
class Linger final : public stream::Watched, public ListNode<UnreadTag> {
  public:
    Linger(TcpPoller& poller, Descriptor socket, std::unique_ptr<tls::Session> session)
        : poller_(poller), socket_(std::move(socket)), session_(std::move(session)) {}
    ~Linger() override { unlink(); }
    void start() noexcept;
    // Discards at most `bytes_max` of the received bytes and returns their number. May destroy this object.
    size_t discard(size_t bytes_max) noexcept;

  private:
    void on_ready(uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;
    void send_last_words() noexcept;

    TcpPoller& poller_;
    Descriptor socket_;
    std::unique_ptr<tls::Session> session_;  // until its close_notify is sent
    size_t discarded_ = 0;
};

// A socket that was accepted under TLS and whose peer has sent data. The poller continues handshakes for a
// bounded time per turn, because each step may take most of a millisecond.
class Handshake : public ListNode<HandshakeTag> {
  public:
    virtual ~Handshake() { unlink(); }
    virtual void go_on() noexcept = 0;  // one step; may destroy this object
};

class TcpPoller final : public stream::EventPoller {
  public:
    // `context`: for the tls fabric; nullptr for tcp.
    static Result<std::unique_ptr<TcpPoller>> create(std::shared_ptr<stream::RegionTable> table,
                                                     std::shared_ptr<const tls::Context> context);

    size_t poll() noexcept override;
    bool arm() noexcept override { return unread_.empty() && handshakes_.empty() && EventPoller::arm(); }

    Result<std::unique_ptr<Listener>> listen(const Address& address, ListenHandler& handler) override;
    Result<std::unique_ptr<Connection>> connect(const Address& address, std::span<const std::byte> data,
                                                const ConnectionOptions& options,
                                                ConnectionHandler& handler) override;

    const std::shared_ptr<const tls::Context>& context() const { return context_; }
    Scheme scheme() const { return context_ ? Scheme::kTls : Scheme::kTcp; }
    void linger(Descriptor socket, std::unique_ptr<tls::Session> session = nullptr) noexcept;
    void retire(const Linger& linger) noexcept;  // destroys it
    void discard_later(Linger& linger) noexcept;
    void shake_hands_later(Handshake& handshake) noexcept;

  private:
    TcpPoller(std::shared_ptr<stream::RegionTable> table, std::shared_ptr<const tls::Context> context)
        : table_(std::move(table)), context_(std::move(context)) {}
    size_t shake_hands() noexcept;

    const std::shared_ptr<stream::RegionTable> table_;
    const std::shared_ptr<const tls::Context> context_;
    List<Handshake, HandshakeTag> handshakes_;        // in order of their turns
    List<Linger, UnreadTag> unread_;                  // may have data to discard, in order of their turns
    std::vector<std::unique_ptr<Linger>> lingering_;  // oldest first
};

class TcpListener final : public stream::StreamListener {
  public:
    TcpListener(TcpPoller& poller, std::shared_ptr<stream::RegionTable> table, ListenHandler& handler,
                Descriptor socket, const Address& address)
        : StreamListener(poller, handler, socket.get(), address),
          tcp_poller_(poller),
          table_(std::move(table)),
          socket_(std::move(socket)) {}

  private:
    std::unique_ptr<stream::Arrival> welcome(Descriptor socket) override;

    TcpPoller& tcp_poller_;
    const std::shared_ptr<stream::RegionTable> table_;
    const Descriptor socket_;
};

}  // namespace wss::fabric::tcp
