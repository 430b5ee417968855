// SPDX-License-Identifier: Apache-2.0
// A tcp connection: the stream engine over a socket, and its setup (name look-up, TCP handshake, TLS
// handshake for tls://, exchange of hellos).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "lib/fabric/resolve.h"
#include "lib/fabric/stream/engine.h"
#include "lib/fabric/tcp/byte_stream.h"

namespace wss::fabric::tcp {

class TcpPoller;

class TcpConnection final : public stream::Engine {
  public:
    // Connecting side. Later failures are reported through on_refused().
    TcpConnection(TcpPoller& poller, std::shared_ptr<stream::RegionTable> table, const Address& address,
                  std::span<const std::byte> data, const ConnectionOptions& options,
                  ConnectionHandler& handler);
    // Accepting side: the peer has sent `hello` on `stream`.
    TcpConnection(TcpPoller& poller, std::shared_ptr<stream::RegionTable> table, ByteStream stream,
                  const stream::Hello& hello, std::string peer, const ConnectionOptions& options,
                  ConnectionHandler& handler);

    Status accept(std::span<const std::byte> data) override;
    std::span<const std::byte> channel_binding() const noexcept override {
        return stream_.session() == nullptr ? std::span<const std::byte>() : stream_.session()->binding();
    }
    std::string_view peer_name() const noexcept override {
        return stream_.session() == nullptr ? std::string_view() : stream_.session()->proven_name();
    }
    bool let_peer_access_memory(bool may) noexcept override {
        set_serves_memory(may);
        return true;
    }

  private:
    enum class Phase : uint8_t {
        kResolving,  // a name look-up is in progress
        kDialling,   // TCP handshake
        kSecuring,   // TLS handshake
        kGreeting,   // our hello is sent, the peer's is due
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
    void secure() noexcept;
    void shake_hands() noexcept;
    void greet() noexcept;
    Status explain_silence(int error) const;
    void receive_greeting() noexcept;
    void greeted() noexcept;

    TcpPoller& tcp_poller_;
    ByteStream stream_;
    Phase phase_;
    const Nanoseconds timeout_;
    Nanoseconds connect_by_ = kNever;
    uint8_t peer_read_depth_ = 1;

    // Connecting side, until the connection is established.
    std::shared_ptr<Resolution> resolution_;
    std::string host_;                      // as given: the name that the certificate must have
    std::vector<SocketAddress> addresses_;  // still to be tried, the next one last
    stream::Hello hello_;
    std::array<std::byte, stream::kHelloBytes> greeting_;
    size_t greeting_have_ = 0;
    Status last_failure_;
};

Status set_socket_options(int socket) noexcept;

}  // namespace wss::fabric::tcp
