// SPDX-License-Identifier: Apache-2.0
// A tcp connection: the engine over a socket, and how it comes to be (look up, dial, exchange hellos).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "lib/fabric/resolve.h"
#include "lib/fabric/stream/engine.h"

namespace wss::fabric::tcp {

class TcpPoller;

class TcpConnection final : public stream::Engine {
  public:
    // Connecting side. Failures to come are heard through on_refused().
    TcpConnection(TcpPoller& poller, std::shared_ptr<stream::RegionTable> table, const Address& address,
                  std::span<const std::byte> data, const ConnectionOptions& options,
                  ConnectionHandler& handler);
    // Accepting side: `socket` has said `hello`.
    TcpConnection(TcpPoller& poller, std::shared_ptr<stream::RegionTable> table, Descriptor socket,
                  const stream::Hello& hello, std::string peer, const ConnectionOptions& options,
                  ConnectionHandler& handler);

    Status accept(std::span<const std::byte> data) override;

  private:
    enum class Phase : uint8_t {
        kResolving,  // a name is being looked up
        kDialling,   // the handshake of TCP
        kGreeting,   // our hello is out, the peer's is due
        kDeciding,   // accepting side: the user has not accepted
        kStreaming,  // frames
    };

    void on_ready(uint32_t epoll_events) noexcept override;
    void on_deadline() noexcept override;
    ssize_t read(std::span<const iovec> into) noexcept override;
    ssize_t write(std::span<const iovec> from) noexcept override;
    void detach(bool orderly) noexcept override;

    void look_up(const Address& address) noexcept;
    void resolved() noexcept;
    void dial() noexcept;
    void dialled() noexcept;
    void greet() noexcept;
    void hear_greeting() noexcept;
    void greeted() noexcept;

    TcpPoller& tcp_poller_;
    Descriptor socket_;
    Phase phase_;
    const Nanoseconds timeout_;
    Nanoseconds connect_by_ = kNever;
    uint8_t peer_read_depth_ = 1;

    // Connecting side, until the connection is established.
    std::shared_ptr<Resolution> resolution_;
    std::vector<SocketAddress> addresses_;  // still to be tried, the next one last
    stream::Hello hello_;
    std::array<std::byte, stream::kHelloBytes> greeting_;
    size_t greeting_have_ = 0;
    Status last_failure_;
};

// Says `hello` on a fresh socket, whose buffer always has room for it; false when the peer is gone.
bool say(int socket, const stream::Hello& hello) noexcept;
Status set_socket_options(int socket) noexcept;

}  // namespace wss::fabric::tcp
