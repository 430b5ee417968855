// SPDX-License-Identifier: Apache-2.0
// ByteStream: a socket, with the TLS session over it if there is one. It moves bytes, and TcpConnection
// interprets them.
//
// Thread-safety: none. An object may pass from thread to thread.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>

#include "lib/base/file.h"
#include "lib/fabric/stream/frame.h"
#include "lib/fabric/tls/session.h"

namespace wss::fabric::tcp {

class ByteStream {
  public:
    ByteStream() = default;
    explicit ByteStream(Descriptor socket, std::unique_ptr<tls::Session> session = nullptr)
        : socket_(std::move(socket)), session_(std::move(session)) {}

    int socket() const { return socket_.get(); }
    explicit operator bool() const { return static_cast<bool>(socket_); }
    tls::Session* session() const { return session_.get(); }
    void set_session(std::unique_ptr<tls::Session> session) { session_ = std::move(session); }

    // As read() and write() of stream::Engine.
    ssize_t read(std::span<const iovec> into) noexcept;
    ssize_t write(std::span<const iovec> from) noexcept;
    // For a new connection only, which always has room for a hello. Returns false if the peer is gone.
    bool send_hello(const stream::Hello& hello) noexcept;
    // Closes at once, with a close_notify under TLS. Data that the peer has not read may be lost.
    void hang_up() noexcept;
    // As hang_up(), but without a close_notify.
    void abandon() noexcept;
    Descriptor take_socket() { return std::move(socket_); }
    std::unique_ptr<tls::Session> take_session() { return std::move(session_); }

  private:
    // Declared in this order because the session uses the socket and must be destroyed first.
    Descriptor socket_;
    std::unique_ptr<tls::Session> session_;
};

// Returns the number of bytes, 0 at the end or a negative errno.
ssize_t receive(int socket, std::span<const iovec> into) noexcept;
// Returns true for the first byte of a TLS handshake or alert. No hello begins with such a byte.
bool begins_tls(std::byte first) noexcept;
// Sends a TLS alert in clear text, which a peer with TLS and one without both recognize. For a peer that uses
// TLS although this address does not, or vice versa.
void send_wrong_protocol(int socket) noexcept;

}  // namespace wss::fabric::tcp
